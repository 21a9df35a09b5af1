"""Compare methods fairly: the same data, the same seeds, the same draws for every one."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.data.parties import Holders
from fedloom.errors import DivergedError, FedloomError, ParameterError
from fedloom.experiments import rows_of_methods, same_rows
from fedloom.experiments.divisions import REDIVIDED, Divisions
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.orders import forget_rows, keep_rows, order
from fedloom.experiments.rows_of_methods import Asked
from fedloom.experiments.running import with_optimum
from fedloom.experiments.tracking import Tracking
from fedloom.experiments.workers import Task, Workers, workers
from fedloom.files import check_own_folders, folder_name, inside
from fedloom.hints import closest
from fedloom.measuring.result import Result
from fedloom.metrics import chosen as metrics_of
from fedloom.metrics.catalogue import CATALOGUE
from fedloom.pictures import curves, notebook
from fedloom.pictures.picture import Picture
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.given import check_methods, check_options, check_problem, checked_seeds, named
from fedloom.simulator.progress import Progress
from fedloom.simulator.run import simulate

COMPARED = "compared"  # in `about` of a result that is kept: the column that was compared
_INSTEAD = {  # of options of `simulate`
    "seed": "Write seeds=(0, 1, 2), with every seed that is wanted.",
    "progress": "Write watch=lambda name, seed: False, for no bar.",
    "on_evaluation": "Write tracked=..., which is given the rows of each run.",
    "checkpoint": "Write out=..., a folder in which runs are kept and go on.",
    "resume": "Write out=..., a folder in which runs are kept and go on.",
}
Watch = Callable[[str, int], Progress | bool | None]


def _unwatched(name: str, seed: int) -> None:
    return None


def _untracked(name: str, seed: int) -> Tracking:
    return nullcontext()


class Comparison(NamedTuple):
    """The results of a comparison: one for each method and seed."""

    results: dict[str, list[Result]]  # by the method's name, one for each seed
    metric: str  # the column of the history that is compared
    redivided: bool = False  # whether every seed has its own division into training and test rows
    stopped: bool = False  # whether Ctrl-C was pressed before all runs of an executor had ended

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the comparison early."""
        runs = [run for runs in self.results.values() for run in runs]
        return self.stopped or any(run.status == "interrupted" for run in runs)

    def table(
        self,
        target: float | None = None,
        *,
        metrics: Sequence[str] = (),
        interval: float | None = None,
        paired: str | None = None,
    ) -> list[dict[str, Any]]:
        """A row for each method: means and spreads over seeds, bytes and seconds.

        Args:
            target: A value of the metric; adds after how many rounds and bytes it was reached.
            metrics: Columns of the history to show; by default the one that is compared.
            interval: Adds confidence intervals of the means at this level, such as 0.95.
            paired: The name of a method; adds the differences of all others from it, seed by seed.
        """
        asked = Asked(tuple(metrics) or (self.metric,), target, interval, paired)
        return rows_of_methods.table(self.results, asked)

    def plot(
        self, *metrics: str, against: str = "round", log: bool = False, title: str = ""
    ) -> Picture:
        """Draw curves of metrics with their spread over seeds.

        Args:
            metrics: Columns of the history; by default the one that is compared.
            against: The horizontal axis: "round", "bytes", "bytes_up", "bytes_down" or "seconds".
            log: Whether the vertical axis is logarithmic.
            title: The title above the picture.
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
    clients: Holders | Callable[[int], Holders],
    *,
    seeds: Sequence[int] = (0,),
    metric: str | None = None,
    out: str | Path | None = None,
    notes: Mapping[str, Any] | None = None,
    watch: Watch = _unwatched,
    tracked: Callable[[str, int], Tracking] = _untracked,
    executor: Any = None,
    **options: Any,
) -> Comparison:
    """Run several methods on the same problem, clients and seeds.

    A method that diverges is kept, with the result up to then. Ctrl-C returns the runs so far.

    Args:
        algorithms: The methods, by the names that tables and pictures show.
        problem: What is optimised.
        clients: The clients and their data; or a function that divides the data anew for each seed,
            such as `lambda seed: fl.data.partition(dataset, "iid", clients=5, test_fraction=0.2,
            seed=seed)`. The spread over seeds then also covers the choice of test rows, which is
            often its larger part; with one division it covers the randomness of training only.
        seeds: The random seeds; every method runs once with each.
        metric: The column of the history that is compared; None: that of the first metric (over
            clients or over rows, as the problem weighs them).
        out: A folder in which all runs are kept; a run that is already there is not repeated.
        notes: Further entries for `about` of each result that is kept.
        watch: Called before each run with the method's name and the seed; returns the `progress`
            for `simulate`.
        tracked: Called before each run with the method's name and the seed; returns a context
            manager for the time of the run, whose value is the run's `on_evaluation`.
        executor: Runs the comparison in other processes or on other hosts: anything with
            `submit(function, *args)`, such as `dask.distributed.Client`, `submitit.AutoExecutor` or
            `concurrent.futures.ProcessPoolExecutor(2, mp_context=spawned)`, where `spawned` is
            `multiprocessing.get_context("spawn")` (a fork would copy the threads of JAX). It needs
            `out`, a folder that all workers share, and methods and problems that a settings file
            can name.
        options: Further arguments of `simulate`, except those of a single run (seed, progress,
            on_evaluation, checkpoint, resume). For metrics that need an optimum, such as "gap", it
            is computed by `fl.reference`.
    """
    check_methods("compare", algorithms)
    check_problem("compare", problem)
    divisions = Divisions(clients)
    seeds = checked_seeds("compare", seeds)
    check_options("compare", options, simulate, _INSTEAD)
    options = {"rounds": 100} | options
    if out is not None:
        check_own_folders(algorithms)

    metrics = options.get("metrics")
    chosen = metric or metrics_of.headline(metrics, problem) or "round"
    check_metric(chosen, metrics, problem)
    comparison = Comparison({name: [] for name in algorithms}, chosen, divisions.redivided)
    kept = {**(notes or {}), COMPARED: chosen, REDIVIDED: divisions.redivided}
    if executor is not None:
        if watch is not _unwatched or tracked is not _untracked:
            raise ParameterError(
                "compare: watch and tracked follow runs in this process, and executor has them "
                "done elsewhere. Leave out one or the other."
            )
        others = workers(executor, out, divisions.redivided, options)

        def known_rows(name: str, seed: int) -> dict[str, Any]:
            """By which a run that is done is told to be of these rows; others load them anyway."""
            done = (place(Path(out or ""), name, seed) / "result.json").exists()
            return same_rows.noted(divisions.of(seed)) if done else {}

        tasks = {
            (name, seed): Task(
                f"{name}, seed {seed}",
                order(
                    *(others.source, name, algorithms[name], problem),
                    run={"seed": seed, "rounds": options["rounds"]},
                    notes=kept | known_rows(name, seed),
                    tracked=Path(out or ""),
                ),
                place(Path(out or ""), name, seed),
            )
            for name, seed in _order(algorithms, seeds, divisions.redivided)
        }
        keep_rows(others.source, seeds, divisions.of)
        comparison = _elsewhere(others, comparison, tasks)
        for runs in comparison.results.values():
            for run in runs:  # of which workers may have prepared the tables
                prepared = run.about.get("preparation", {}).get("left_out", {})
                left_out = run.about.get("left out", prepared)
                divisions.check_left_out(run.about["seed"], left_out)
        if not comparison.stopped:
            forget_rows(others.source)
        return comparison

    # Methods with one dual for all and with separate ones solve other saddle problems.
    @functools.cache
    def known(dual: str, division: int | None) -> dict[str, Any]:
        held = divisions.of(seeds[0] if division is None else division)
        return with_optimum(options, problem, held, dual)

    for dual in {algorithm.dual for algorithm in algorithms.values()}:
        known(dual, divisions.key(seeds[0]))
    for name, seed in _order(algorithms, seeds, divisions.redivided):
        algorithm = algorithms[name]
        try:
            held = divisions.of(seed)
            of_run = known(algorithm.dual, divisions.key(seed))
            of_run = of_run | {"seed": seed, "progress": watch(name, seed)}
            with tracked(name, seed) as track:
                of_run["on_evaluation"] = track
                if out is None:
                    result = simulate(algorithm, problem, held, **of_run)
                else:
                    folder = RunFolder(place(Path(out), name, seed), kept)
                    result = folder.go_on(algorithm, problem, held, **of_run)
        except DivergedError as error:
            result = error.result
        except FedloomError as error:
            if len(algorithms) > 1:
                error.args = (f"method {name!r}: {error}",)
            raise
        comparison.results[name].append(result)
        if comparison.interrupted:
            return comparison
    return comparison


def _elsewhere(
    others: Workers, comparison: Comparison, tasks: Mapping[tuple[str, int], Task]
) -> Comparison:
    """Have the runs done by workers; Ctrl-C returns what is done."""
    results: dict[tuple[str, int], Result] = {}
    places, stopped = list(tasks), False
    try:
        others.run(tasks.values(), lambda i, result: results.update({places[i]: result}))
    except KeyboardInterrupt:
        stopped = True
    for name, seed in tasks:
        if (name, seed) in results:
            comparison.results[name].append(results[name, seed])
    return comparison._replace(stopped=stopped)


def _order(
    names: Iterable[str], seeds: Sequence[int], redivided: bool
) -> Iterable[tuple[str, int]]:
    """Method by method; seed by seed where each has its own rows, which are then loaded once."""
    if redivided:
        return ((name, seed) for seed in seeds for name in names)
    return ((name, seed) for name in names for seed in seeds)


def place(out: Path, name: str, seed: int) -> Path:
    """Where a run of a comparison is kept; raises where a link leads out of the comparison."""
    return inside(out, f"{folder_name(name)}/seed-{seed}")


def check_metric(metric: str, metrics: Iterable[str] | None, problem: Problem) -> None:
    """Refuse a column that no history of these metrics has."""
    columns = metrics_of.columns(metrics, problem)
    # The name of another model of the hub may stand before it.
    known = any(f"_{metric}".endswith(f"_{column}") for column in columns)
    if metric not in metrics_of.ALWAYS and not known:
        raise ParameterError(
            f"metric must be a column of the history, such as {', '.join(columns[:3])}; got "
            f"{metric!r}. {_hint(metric, columns)}"
        )


def _hint(metric: str, columns: Sequence[str]) -> str:
    """What to do about a column that is not there."""
    if (name := metrics_of.base(metric)) in CATALOGUE and name not in columns:
        return f"Add {name!r} to metrics in [run], or to metrics=... in Python."
    return closest(metric, (*columns, *metrics_of.ALWAYS))
