"""Which way a metric should go: the one truth for tables, pictures, targets and sweeps.

A metric says itself whether larger is better: that of a problem or of a user in its `Metric`, any
other in the list of all metrics. A result carries the names of those of its metrics
that should grow, so that whoever reads it later needs no guess.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fedloom.metrics.catalogue import CATALOGUE
from fedloom.problems.base import Metric, Problem

PARTS = ("worst", "worst10", "best10", "std")  # endings of the columns that summarise a metric


def of_metrics(
    metrics: Iterable[str] | Mapping[str, Metric | None] | None, problem: Problem
) -> dict[str, bool]:
    """Whether larger is better, for each metric of a run; None stands for the problem's own."""
    passed = metrics if isinstance(metrics, Mapping) else {}
    own = {name: metric for name, metric in passed.items() if metric is not None}
    known = {**problem.metrics(), **own}
    chosen = known if metrics is None else metrics
    said: Mapping[str, Any] = {**CATALOGUE, **known}
    return {name: name in said and said[name].larger_is_better for name in chosen}


def larger_is_better(column: str, directions: Mapping[str, bool]) -> bool:
    """Whether a column of the history should grow, such as "accuracy_worst" or "average_accuracy".

    Costs, such as bytes, and the spread of a metric over clients should not.
    """
    if column in directions:
        return directions[column]
    metric = base(column)
    if column.endswith("_std"):
        return False
    # The name of another model of the hub may stand before the metric's.
    fitting = [name for name in directions if f"_{metric}".endswith(f"_{name}")]
    return directions[max(fitting, key=len)] if fitting else False


def growing(columns: Iterable[str], directions: Mapping[str, bool]) -> list[str]:
    """Those of the measured metrics that should grow: what a result carries."""
    return [c for c in columns if c == base(c) and larger_is_better(c, directions)]


def grows(column: str, growing: Collection[str]) -> bool:
    """Whether a column should grow, from what a result carries."""
    return base(column) in growing and not column.endswith("_std")


def base(column: str) -> str:
    """The metric of a column: "accuracy" of "accuracy_worst"."""
    head, _, part = column.rpartition("_")
    return head if part in PARTS else column
