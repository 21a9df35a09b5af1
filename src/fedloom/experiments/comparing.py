"""Compare methods fairly: the same data, the same seeds, the same draws for every one."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.data.clients import Clients
from fedloom.engines.evaluation import NEED_OPTIMUM
from fedloom.engines.reference import reference
from fedloom.engines.result import Result
from fedloom.engines.simulator import simulate
from fedloom.errors import DivergedError
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

_SMALLER_IS_BETTER = ("loss", "objective", "gap", "distance", "optimality")


class Comparison(NamedTuple):
    """What came of each method, for each seed."""

    results: dict[str, list[Result]]
    metric: str

    def table(self, target: float | None = None) -> list[dict[str, Any]]:
        """A row for each method: the metric's mean and spread, the cost, and when it got there."""
        return [_row(name, runs, self.metric, target) for name, runs in self.results.items()]


def compare(
    algorithms: Mapping[str, Algorithm],
    problem: Problem,
    clients: Clients,
    *,
    seeds: Sequence[int] = (0,),
    metric: str | None = None,
    finished: Callable[[str, int, Result], None] = lambda name, seed, result: None,
    **options: Any,
) -> Comparison:
    """Run several methods on one problem.

    Args:
        algorithms: The methods, by the names they shall have in tables and pictures.
        problem: What is optimised.
        clients: Who holds what.
        seeds: Every method runs once for each of them.
        metric: What is compared; None: the first metric.
        finished: Called after each run, with the method's name, the seed and the result.
        options: As for `simulate`. Metrics of a known optimum are taken against `fl.reference`.

    A method that diverges is kept with what it reached.
    """
    metrics = options.get("metrics")
    if metrics and set(metrics) & set(NEED_OPTIMUM) and options.get("optimum") is None:
        options["optimum"] = reference(problem, clients)
    results: dict[str, list[Result]] = {name: [] for name in algorithms}
    for name, algorithm in algorithms.items():
        for seed in seeds:
            try:
                result = simulate(algorithm, problem, clients, **options | {"seed": seed})
            except DivergedError as error:
                result = error.result
            results[name].append(result)
            finished(name, seed, result)
    chosen = metric or (metrics and next(iter(metrics))) or next(iter(problem.metrics()))
    return Comparison(results, chosen)


def keep(name: str, result: Result, out: Path) -> None:
    """Write a method's result for one seed into a folder of its own."""
    result.save(out / name.replace("/", "-") / f"seed-{result.about['seed']}")


def _row(name: str, runs: list[Result], metric: str, target: float | None) -> dict[str, Any]:
    values = [run.final.get(metric, float("nan")) for run in runs]
    row: dict[str, Any] = {
        "method": name,
        metric: statistics.fmean(values),
        "spread": statistics.pstdev(values) if len(values) > 1 else None,
        "bytes up": int(statistics.fmean(run.final["bytes_up"] for run in runs)),
        "bytes down": int(statistics.fmean(run.final["bytes_down"] for run in runs)),
        "seconds": statistics.fmean(run.final["seconds"] for run in runs),
    }
    if target is not None:
        reached = [_reached(run, metric, target) for run in runs]
        known = [row for row in reached if row is not None]
        row["reached"] = f"{len(known)} of {len(runs)}"
        row["rounds to target"] = statistics.median(r["round"] for r in known) if known else None
        row["bytes to target"] = (
            int(statistics.median(r["bytes_up"] + r["bytes_down"] for r in known))
            if known
            else None
        )
    diverged = sum(run.status == "diverged" for run in runs)
    if diverged:
        row["method"] = f"{name} ({diverged} of {len(runs)} diverged)"
    return row


def _reached(run: Result, metric: str, target: float) -> dict[str, float] | None:
    """The first evaluation at which the metric is as good as the target."""
    falls = not set(metric.split("_")).isdisjoint(_SMALLER_IS_BETTER)
    good = (lambda v: v <= target) if falls else (lambda v: v >= target)
    return next((row for row in run.rows if metric in row and good(row[metric])), None)
