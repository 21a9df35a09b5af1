"""The table of a comparison: a row for each method, with what its seeds say together.

A row has the mean of each metric under the metric's name. What belongs to the first metric has
plain names, "spread", "interval low", "interval high", "difference", "p"; what belongs to another
has that metric's name before it, as "loss spread".
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedloom.errors import ParameterError
from fedloom.experiments import over_seeds
from fedloom.hints import closest
from fedloom.measuring.result import Result
from fedloom.parameters import Rule, check

LEVEL = 0.95  # of the interval of a difference, where no other is asked for
Runs = Mapping[str, Sequence[Result]]
Row = dict[str, Any]


class Asked(NamedTuple):
    """What the table of a comparison should show."""

    metrics: tuple[str, ...]  # columns of the history, the main one first
    target: float | None = None  # of the main metric
    interval: float | None = None  # level of confidence intervals
    paired: str | None = None  # the method that others are compared with, seed by seed

    def named(self, metric: str, part: str) -> str:
        """The column of the table for a part of what is said of a metric."""
        return part if metric == self.metrics[0] else f"{metric} {part}"


def table(results: Runs, asked: Asked) -> list[Row]:
    """A row for each method that has run."""
    _check(results, asked)
    if asked.paired is not None and asked.paired not in results:
        raise ParameterError(
            f"paired must name one of the methods; got {asked.paired!r}. "
            f"{closest(asked.paired, results)}"
        )
    return [
        _row(name, runs, asked)
        | _differences(name, results, asked)
        | _costs(runs)
        | _target(runs, asked)
        for name, runs in results.items()
        if runs
    ]


def _check(results: Runs, asked: Asked) -> None:
    """Refuse columns that no history has, and levels outside (0, 1)."""
    if asked.interval is not None:
        level = "a number between 0 and 1, such as 0.95"
        check("table", "interval", asked.interval, Rule(_is_level, level, LEVEL))
    known = {column for runs in results.values() for run in runs for column in run.final}
    for metric in asked.metrics:
        if known and metric not in known:
            raise ParameterError(
                f"table: metrics must be columns of the history; got {metric!r}. "
                f"{closest(metric, sorted(known))}"
            )


def _is_level(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 1


def _row(name: str, runs: Sequence[Result], asked: Asked) -> Row:
    diverged = sum(run.status == "diverged" for run in runs)
    remark = f" ({diverged} of {len(runs)} diverged)" if diverged else ""
    row: Row = {"method": f"{name}{remark}"}
    for metric in asked.metrics:
        values = values_of(runs, metric)
        row[metric] = statistics.fmean(values)
        row[asked.named(metric, "spread")] = over_seeds.spread(values)
        if asked.interval is not None:
            low, high = over_seeds.interval(values, asked.interval) or (None, None)
            row[asked.named(metric, "interval low")] = low
            row[asked.named(metric, "interval high")] = high
    return row | {"seeds": len(runs)}


def _differences(name: str, results: Runs, asked: Asked) -> Row:
    """How far a method is from the one that it is paired with."""
    row: Row = {}
    if asked.paired is None:
        return row
    for metric in asked.metrics:
        found = None
        if name != asked.paired:
            own, others = _by_seed(results[name], metric), _by_seed(results[asked.paired], metric)
            found = over_seeds.difference(own, others, asked.interval or LEVEL)
        parts = {"difference": "mean", "difference low": "low", "difference high": "high", "p": "p"}
        for part, field in parts.items():
            row[asked.named(metric, part)] = None if found is None else getattr(found, field)
    return row


def values_of(runs: Sequence[Result], metric: str) -> list[float]:
    """The last value of a metric in each run; nan where it was not measured."""
    found = [run.final.get(metric) for run in runs]
    return [float("nan") if value is None else value for value in found]


def _by_seed(runs: Sequence[Result], metric: str) -> dict[int, float]:
    seeds = [run.about["seed"] for run in runs]
    return dict(zip(seeds, values_of(runs, metric), strict=True))


def _costs(runs: Sequence[Result]) -> Row:
    row: Row = {
        "bytes up": int(statistics.fmean(run.final["bytes_up"] for run in runs)),
        "bytes down": int(statistics.fmean(run.final["bytes_down"] for run in runs)),
        "seconds": statistics.fmean(run.final["seconds"] for run in runs),
    }
    if "epsilon" in runs[0].final:
        row["epsilon"] = runs[0].final["epsilon"]
    return row


def _target(runs: Sequence[Result], asked: Asked) -> Row:
    """After how many rounds and bytes the target was reached."""
    if asked.target is None:
        return {}
    reached = [_reached(run, asked.metrics[0], asked.target) for run in runs]
    known = [row for row in reached if row is not None]
    rounds = statistics.median(row["round"] for row in known) if known else None
    sent = [row["bytes_up"] + row["bytes_down"] for row in known]
    return {
        "reached": f"{len(known)} of {len(runs)}",
        "rounds to target": rounds,
        "bytes to target": int(statistics.median(sent)) if sent else None,
    }


def _reached(run: Result, metric: str, target: float) -> dict[str, float] | None:
    """The first evaluation at which the metric is as good as the target."""
    larger = run.larger_is_better(metric)
    seen = (row for row in run.rows if metric in row)
    return next((row for row in seen if over_seeds.reaches(row[metric], target, larger)), None)
