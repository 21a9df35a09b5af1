"""Real numbers as elements of the ring of integers modulo 2^64, by a fixed-point grid."""

import numpy as np

from fedloom.errors import WireError

BITS = 32  # of the fraction: the grid's step is 2^-32
_STEP = 2.0**-BITS
_RANGE = 2.0 ** (63 - BITS)


def to_ring(values: np.ndarray, members: int) -> np.ndarray:
    """Round to the grid; the sum of as many members' values must stay within the ring."""
    exact = np.asarray(values, np.float64)
    if not float(np.max(np.abs(exact), initial=0.0)) * members < _RANGE:
        raise WireError(  # without the number, which nobody may know
            f"secure aggregation takes numbers below {_RANGE / members:.3g} in size, and finite "
            f"ones. Scale the features, or lower the step size."
        )
    return np.rint(exact / _STEP).astype(np.int64).view(np.uint64)


def from_ring(total: np.ndarray) -> np.ndarray:
    """A sum of ring elements as real numbers."""
    return total.view(np.int64).astype(np.float64) * _STEP
