"""Rows of numbers with mean 0 and deviation 1 in each channel, by the training rows of everyone."""

from typing import Any, NamedTuple

import numpy as np

from fedloom.errors import DataError
from fedloom.rows import Rows

_ROUNDING = 1e-12  # of a mean and deviation in double precision, relative


class Normalisation(NamedTuple):
    """What was taken away from each channel, and by what it was divided."""

    mean: np.ndarray  # one number for each channel of images, or for each feature
    deviation: np.ndarray  # 1 where a channel is the same everywhere

    def of(self, x: np.ndarray) -> np.ndarray:
        """Rows as a model that was trained on normalised ones takes them.

        Args:
            x: Images (rows, height, width, channels), or features (rows, features), as they were.
        """
        dtype = np.result_type(x.dtype, np.float32)
        return (x.astype(dtype) - self.mean.astype(dtype)) / self.deviation.astype(dtype)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value.tolist() for name, value in self._asdict().items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any] | None) -> "Normalisation | None":
        """What `as_dict` returned; None where there was none."""
        if values is None:
            return None
        return cls(**{name: np.asarray(value, np.float64) for name, value in values.items()})


def normalisation(rows: Rows, sizes: np.ndarray) -> Normalisation:
    """The mean and deviation of each channel, from the number, sum and squares of every client.

    Args:
        rows: The training rows of all clients, one client after the other.
        sizes: How many rows each client has.
    """
    x = np.asarray(rows.x)
    if not np.issubdtype(x.dtype, np.floating):
        raise DataError(
            f"normalise is for images and measurements; these rows are whole numbers of type "
            f"{x.dtype}, such as words. Leave it out."
        )
    # A shift leaves the deviation as it is, and keeps the squares small beside it.
    around = np.asarray(x[0], np.float64).reshape(-1, x.shape[-1]).mean(0)
    count, total, squares = 0, np.zeros(x.shape[-1]), np.zeros(x.shape[-1])
    for part in np.split(x, np.cumsum(sizes)[:-1]):
        values = part.reshape(-1, x.shape[-1]) - around
        count += len(values)
        total += values.sum(0)
        squares += (values * values).sum(0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0))
    return Normalisation(around + mean, scales(around + mean, deviation))


def scales(mean: np.ndarray | float, deviation: np.ndarray | float) -> np.ndarray:
    """What columns are divided by: their deviations, and 1 where all values are one number.

    Of one number, too, rounding leaves a deviation; another value, later, would become huge by it.
    """
    return np.where(deviation > _ROUNDING * np.abs(mean), deviation, 1.0)
