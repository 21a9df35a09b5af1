"""What a study of `python -m benchmarks.slopes` is made of."""

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Point(NamedTuple):
    """One run, or the best of some."""

    series: str
    x: float  # what is varied
    seed: int
    value: float | None  # what is measured; None: what it was to reach was not reached


class Study(NamedTuple):
    """What is varied, what is measured, and the slopes that the paper's bounds have."""

    varied: str
    measured: str
    by_theory: dict[str, str] | None  # a slope for each series, as a text; None: it is of no order
    points: Callable[[], Iterator[Point]]
    log: bool = False  # whether what is of no order is drawn on a logarithmic axis all the same
