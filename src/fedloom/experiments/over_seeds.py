"""What several seeds say together: spread, confidence interval, and differences seed by seed.

The spread is the sample standard deviation, and one seed has none. Intervals and p-values are those
of Student's t-distribution: that of a mean over seeds, or of the differences between two methods on
the same seeds (a paired t-test).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

_ROUNDING = float(np.finfo(np.float32).eps)  # relative: most metrics are of single precision


class Difference(NamedTuple):
    """How far a method is from another on the same seeds."""

    mean: float
    low: float | None = None  # ends of the confidence interval; None where seeds agree, to rounding
    high: float | None = None
    p: float | None = None  # of the paired t-test, both sides


def spread(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None for one value, or where one is not finite."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return statistics.stdev(map(float, values))  # exact: 0 where all values are one


def reaches(value: float, target: float, larger_is_better: bool) -> bool:
    """Whether a value has reached a target, to rounding: 45 / 50 in single precision is 0.9."""
    better = value - target if larger_is_better else target - value
    return better >= -_ROUNDING * abs(target)


def interval(values: Sequence[float], level: float) -> tuple[float, float] | None:
    """The confidence interval of the mean; None with one seed, or where nothing was drawn."""
    deviation = spread(values)
    if not deviation:
        return None
    n, mean = len(values), float(np.mean(values))
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * deviation / math.sqrt(n)
    return mean - half, mean + half


def difference(
    values: Mapping[int, float], others: Mapping[int, float], level: float
) -> Difference | None:
    """Values by seed, less those of another method; None with fewer than two seeds in common."""
    common = [seed for seed in values if seed in others]
    apart = [values[seed] - others[seed] for seed in common]
    deviation = spread(apart)
    if deviation is None:
        return None
    mean, ends = float(np.mean(apart)), interval(apart, level)
    largest = max(max(abs(values[seed]), abs(others[seed])) for seed in common)
    # A number that every seed gives, as two rows more, is no sample: there is nothing to test.
    if ends is None or deviation <= _ROUNDING * largest:
        return Difference(mean)
    error = deviation / math.sqrt(len(apart))
    return Difference(mean, *ends, p=float(2 * special.stdtr(len(apart) - 1, -abs(mean / error))))
