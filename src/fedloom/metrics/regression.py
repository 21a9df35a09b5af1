"""Metrics of a regression, as scikit-learn defines them.

Row by row, `absolute_error` and `squared_error` are numbers whose means make the metrics.
"""

import math

import numpy as np

Array = np.ndarray

_ROUNDING = 1e-9  # of means, relative: secure sums round more than double precision does


def absolute_error(values: Array, labels: Array) -> np.ndarray:
    """|prediction - label|."""
    return np.abs(values - labels)


def squared_error(values: Array, labels: Array) -> np.ndarray:
    """(prediction - label)^2."""
    return np.asarray((values - labels) ** 2)


def r2(values: Array, labels: Array) -> float:
    """1 - sum (prediction - label)^2 / sum (label - their mean)^2; nan where labels are all one."""
    if labels.min() == labels.max():
        return math.nan
    spread = ((labels - labels.mean()) ** 2).sum()
    return float(1 - squared_error(values, labels).sum() / spread)


def r2_of_means(error: float, label: float, squared_label: float) -> float:
    """The same from the means over rows of the squared error, the label and its square.

    Means lose digits where labels are large and alike, so this is for where there are no rows.
    """
    variance = squared_label - label * label  # of others: a power too large would be an error
    return 1 - error / variance if variance > _ROUNDING * squared_label else math.nan
