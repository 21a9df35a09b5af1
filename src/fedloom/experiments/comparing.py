"""Compare methods fairly: the same data, the same seeds, the same draws for every one."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedloom.arguments import check_options, named
from fedloom.data.parties import Holders
from fedloom.errors import DivergedError, ParameterError
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.running import with_optimum
from fedloom.experiments.tracking import Tracking
from fedloom.hints import closest
from fedloom.measuring.result import Result
from fedloom.pictures import curves, notebook
from fedloom.pictures.picture import Picture
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.given import check_clients, check_methods, check_problem, check_seeds
from fedloom.simulator.progress import Progress
from fedloom.simulator.run import simulate

_ALWAYS = ("round", "seconds", "bytes_up", "bytes_down", "epsilon")
Watch = Callable[[str, int], Progress | bool | None]


class Comparison(NamedTuple):
    """What came of each method, for each seed."""

    results: dict[str, list[Result]]  # by the method's name, one for each seed
    metric: str  # what is compared

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before its end."""
        return any(run.status == "interrupted" for runs in self.results.values() for run in runs)

    def table(self, target: float | None = None) -> list[dict[str, Any]]:
        """A row for each method: the metric's mean and spread over seeds, bytes and seconds.

        Args:
            target: A value of the metric; rows then say after how many rounds and bytes it was
                reached.
        """
        return [
            _row(name, runs, self.metric, target) for name, runs in self.results.items() if runs
        ]

    def plot(
        self, *metrics: str, against: str = "round", log: bool = False, title: str = ""
    ) -> Picture:
        """Draw curves of metrics with their spread over seeds.

        Args:
            metrics: Columns of the history; by default the one that is compared.
            against: The horizontal axis: "round", "bytes", "bytes_up", "bytes_down" or "seconds".
            log: Whether the vertical axis is logarithmic.
            title: Above the picture.
        """
        chosen = metrics or (self.metric,)
        return curves.draw(self.results, metrics=chosen, against=against, log=log, title=title)

    def __rich__(self) -> Any:
        return notebook.rich_table(self.table())

    def _repr_html_(self) -> str:
        return notebook.html_table(self.table())


@named
def compare(
    algorithms: Mapping[str, Algorithm],
    problem: Problem,
    clients: Holders,
    *,
    seeds: Sequence[int] = (0,),
    metric: str | None = None,
    out: str | Path | None = None,
    notes: Mapping[str, Any] | None = None,
    watch: Watch = lambda name, seed: None,
    tracked: Callable[[str, int], Tracking] = lambda name, seed: nullcontext(),
    **options: Any,
) -> Comparison:
    """Run several methods on one problem.

    Args:
        algorithms: The methods, by the names they shall have in tables and pictures.
        problem: What is optimised.
        clients: Who holds what.
        seeds: Every method runs once for each of them.
        metric: What is compared; None: the first metric.
        out: A folder in which every run is kept; what is there already is not run again.
        notes: Entries that are added to `about` of every result that is kept.
        watch: Called before each run with the method's name and the seed; returns what `simulate`
            takes as `progress`.
        tracked: Called before each run with the method's name and the seed; returns a context in
            which the run goes on, and which is given each row of its history.
        options: As for `simulate`. Metrics of a known optimum are taken against `fl.reference`.

    A method that diverges is kept with what it reached. Ctrl-C returns what was done.
    """
    check_methods("compare", algorithms)
    check_problem("compare", problem)
    check_clients("compare", clients)
    check_seeds("compare", seeds)
    check_options("compare", options, simulate)
    options = {"rounds": 100} | options
    # Methods with one dual for all and with separate ones solve other saddle problems.
    known = {
        dual: with_optimum(options, problem, clients, dual)
        for dual in {algorithm.dual for algorithm in algorithms.values()}
    }
    metrics = options.get("metrics")
    chosen = metric or (metrics and next(iter(metrics))) or next(iter(problem.metrics()), "round")
    check_metric(chosen, metrics, problem)
    comparison = Comparison({name: [] for name in algorithms}, chosen)
    for name, algorithm in algorithms.items():
        for seed in seeds:
            of_run = known[algorithm.dual] | {"seed": seed, "progress": watch(name, seed)}
            try:
                with tracked(name, seed) as track:
                    of_run["on_evaluation"] = track
                    if out is None:
                        result = simulate(algorithm, problem, clients, **of_run)
                    else:
                        folder = RunFolder(place(Path(out), name, seed), notes or {})
                        result = folder.go_on(algorithm, problem, clients, **of_run)
            except DivergedError as error:
                result = error.result
            comparison.results[name].append(result)
            if comparison.interrupted:
                return comparison
    return comparison


def place(out: Path, name: str, seed: int) -> Path:
    """Where a run of a comparison is kept."""
    return out / name.replace("/", "-") / f"seed-{seed}"


def _row(name: str, runs: list[Result], metric: str, target: float | None) -> dict[str, Any]:
    values = [run.final.get(metric, float("nan")) for run in runs]
    row: dict[str, Any] = {
        "method": name,
        metric: statistics.fmean(values),
        "spread": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "bytes up": int(statistics.fmean(run.final["bytes_up"] for run in runs)),
        "bytes down": int(statistics.fmean(run.final["bytes_down"] for run in runs)),
        "seconds": statistics.fmean(run.final["seconds"] for run in runs),
    }
    if "epsilon" in runs[0].final:
        row["epsilon"] = runs[0].final["epsilon"]
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


def check_metric(metric: str, metrics: Iterable[str] | None, problem: Problem) -> None:
    """Refuse a column that no history of these metrics has: they come with prefix and suffix."""
    measured = tuple(metrics if metrics is not None else problem.metrics())
    words = f"_{metric}_"
    if metric not in _ALWAYS and not any(f"_{name}_" in words for name in measured):
        known = [column for name in measured for column in (name, f"{name}_worst")]
        raise ParameterError(
            f"metric must be a column of the history, such as {', '.join(known)}; got {metric!r}. "
            f"{closest(metric, (*known, *_ALWAYS))}"
        )


def _reached(run: Result, metric: str, target: float) -> dict[str, float] | None:
    """The first evaluation at which the metric is as good as the target."""
    larger = run.larger_is_better(metric)
    good = (lambda v: v >= target) if larger else (lambda v: v <= target)
    return next((row for row in run.rows if metric in row and good(row[metric])), None)
