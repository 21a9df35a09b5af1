"""Real numbers as elements of the ring of integers modulo 2^64, by a fixed-point grid.

A member's part of a sum is its numbers, and a zero behind them. If its numbers do not fit, the part
is noise from end to end: the sum is noise then, and its last element all but surely not zero. So
who opens it learns that some member's numbers did not fit, and nothing else. A count of such
members would be a number of single ones, which a hub could bisect by its choice of the model; and
with zeros in their place, the sum would be of the other members alone, however few.
"""

import secrets

import numpy as np

from fedloom.exchange.secure import masks

BITS = 32  # of the fraction: the grid's step is 2^-32
_STEP = 2.0**-BITS
_RANGE = 2.0 ** (63 - BITS)


def limit(members: int) -> float:
    """What a number must be below, so that the sum of as many members' stays within the ring."""
    return _RANGE / members


def fits(values: np.ndarray, members: int) -> bool:
    """Whether all values are finite and below the limit."""
    return bool(np.max(np.abs(values), initial=0.0) < limit(members))


def to_ring(values: np.ndarray) -> np.ndarray:
    """A part of values that fit, rounded to the grid."""
    rounded = np.rint(np.asarray(values, np.float64) / _STEP)
    return np.append(rounded.astype(np.int64).view(np.uint64), np.uint64(0))


def noise(count: int) -> np.ndarray:
    """A part in the place of as many values that do not fit."""
    return masks.mask(secrets.token_bytes(masks.LENGTH), count + 1)


def from_ring(total: np.ndarray) -> np.ndarray | None:
    """A sum of parts as real numbers; None where it is noise."""
    return None if total[-1] else total[:-1].view(np.int64).astype(np.float64) * _STEP
