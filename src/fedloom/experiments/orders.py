"""Orders: runs as plain values, for workers in other processes or on hosts that share the files.

An order holds the tables of a settings file with one method, and says where the clients come from:
from these tables, or from a file that was written beside the runs. No objects are sent; what cannot
be written as settings is refused before any run is handed over.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.data.parties import Holders
from fedloom.data.validation import hold_out
from fedloom.errors import DivergedError, FedloomError, ParameterError
from fedloom.experiments import described, kept_rows, settings
from fedloom.experiments.addresses import check_unchanged, digests
from fedloom.experiments.claims import claimed
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.options import RunSettings
from fedloom.experiments.running import with_optimum
from fedloom.experiments.settings import Settings
from fedloom.experiments.tracking import tracking
from fedloom.experiments.written import with_whole_paths
from fedloom.files import folder_name, inside
from fedloom.measuring.result import Result
from fedloom.parameters import written
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

Order = dict[str, Any]  # plain values only
_LOOK_AGAIN = 2.0  # seconds, at a run that another worker has


class Source(NamedTuple):
    """What all orders have in common."""

    tables: dict[str, Any]  # [data], [run], ... of a settings file
    rows: Path | None = None  # a folder with the clients' rows; None: the tables say which they are
    redivided: bool = False  # whether every seed has its own division


def from_settings(setup: Settings) -> Source:
    """Workers load and divide the data by themselves, as the settings say."""
    tables = with_whole_paths(setup.tables)
    common = {name: tables[name] for name in ("data", "partition", "run") if name in tables}
    redivided = setup.compare.redivide
    return Source(common | {"compare": {"redivide": redivided}}, redivided=redivided)


def from_objects(out: Path, redivided: bool, options: Mapping[str, Any]) -> Source:
    """Workers read rows that `keep_rows` writes; options as for `simulate`."""
    rows = inside(out, ".rows").resolve()
    return Source({"data": {"path": str(rows)}, "run": _run_table(options)}, rows, redivided)


def keep_rows(source: Source, seeds: Sequence[int], clients: Callable[[int], Holders]) -> None:
    """Write the clients of each seed to files, unless workers load the data themselves."""
    if source.rows is not None:
        for seed in seeds if source.redivided else seeds[:1]:
            kept_rows.write(_rows_of(source, source.rows, seed), clients(seed))


def forget_rows(source: Source) -> None:
    """Remove the rows that were kept: all runs have ended."""
    if source.rows is not None:
        shutil.rmtree(source.rows)


def _rows_of(source: Source, folder: Path, seed: int) -> Path:
    return inside(folder, f"seed-{seed}.safetensors" if source.redivided else "all.safetensors")


def order(
    source: Source,
    name: str,
    algorithm: Algorithm,
    problem: Problem,
    *,
    run: Mapping[str, Any],
    notes: Mapping[str, Any],
    held_out: tuple[float, int] | None = None,
    tracked: Path | None = None,
) -> Order:
    """The order for one run.

    Args:
        source: What all runs have in common.
        name: Of the method.
        algorithm: The method.
        problem: The problem.
        run: Settings of [run] that are this run's own, its seed among them.
        notes: Entries of `about` of the result.
        held_out: The share of training rows to hold out, and the seed of their choice.
        tracked: The folder of all runs, where trackers of [run] get each evaluation.
    """
    who = f"method {name!r}"
    try:
        own = {"algorithm": [described.method(name, algorithm)]}
        own |= described.around(algorithm, problem)
        own |= {"run": source.tables.get("run", {}) | dict(run)}
        plain = json.loads(json.dumps(source.tables | own))
        again = settings.parse(plain, _place("the settings of a run"))
    except (FedloomError, TypeError, ValueError) as error:
        raise _cannot_travel(f"{who} cannot be written as settings: {error}") from error
    for made, read in ((algorithm, again.algorithms[name]), (problem, again.problem)):
        if repr(made) != repr(read):
            raise _cannot_travel(
                f"{who}: {type(made).__name__} is not the same when it is read from settings: "
                f"{made!r} became {read!r}."
            )
    rows = source.rows and str(_rows_of(source, source.rows, again.run.seed))
    return {
        "settings": plain,
        "code": digests(plain),
        "rows": rows,
        "held_out": held_out and list(held_out),
        "notes": json.loads(json.dumps(notes)),
        "tracked": tracked and str(tracked.resolve()),
    }


def ended(order: Order, folder: Path) -> Result | None:
    """The result of an order that needs no worker any more."""
    setup = settings.parse(order["settings"], _place(str(folder)))
    kept = RunFolder(folder, order["notes"])
    return kept.ended(setup.algorithm, setup.problem, **setup.options())


def obey(order: Order, folder: str, wait: bool) -> str:
    """Carry out an order in a folder, from the beginning or from where an earlier worker stopped.

    Args:
        order: What `order` returned.
        folder: The run's own folder, which is returned.
        wait: Whether to wait for a run that another worker has; else it is left to that one.
    """
    while True:
        with claimed(Path(folder)) as ours:
            if ours:
                _run(order, Path(folder))
        if ours or not wait:
            return folder
        time.sleep(_LOOK_AGAIN)


def _run(order: Order, folder: Path) -> None:
    check_unchanged(order["code"], folder)
    setup = settings.parse(order["settings"], _place(str(folder)))
    name, algorithm, seed = next(iter(setup.algorithms)), setup.algorithm, setup.run.seed
    rows, held_out, tracked = order["rows"], order["held_out"], order["tracked"]
    clients = kept_rows.read(Path(rows)) if rows else setup.clients_of(seed)
    if held_out is not None:
        clients = hold_out(clients, *held_out)
    options = with_optimum(setup.options(), setup.problem, clients, algorithm.dual)
    facts = {"algorithm": algorithm, "problem": setup.problem, "seed": seed}
    out = Path(tracked or folder)
    log = setup.run.log if tracked else ()
    with tracking(log, out, f"{out.name}/{folder_name(name)}/seed-{seed}", facts) as track:
        options |= {"progress": False, "on_evaluation": track}
        try:
            RunFolder(folder, order["notes"]).go_on(algorithm, setup.problem, clients, **options)
        except DivergedError:  # its folder says so
            pass


def _place(file: str) -> Location:
    return Location(file, "", admit=whatever_is_named)


def _run_table(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `simulate` as [run] has them."""
    table: dict[str, Any] = {}
    fields = {field.name for field in written(RunSettings)}
    for name, value in options.items():
        if value is None and name != "batch_size":
            continue
        if name not in fields:
            raise _cannot_travel(f"the option {name} is an object of this process.")
        table[name] = value
    if "batch_size" in options and options["batch_size"] is None:
        table["batch_size"] = "full"
    if "metrics" in table:
        table["metrics"] = _metric_names(table["metrics"])
    return table


def _metric_names(metrics: Sequence[str] | Mapping[str, Any]) -> list[str]:
    for name, metric in metrics.items() if isinstance(metrics, Mapping) else ():
        if metric is not None:
            raise _cannot_travel(f"the metric {name!r} is a function of this process.")
    return list(metrics)


def _cannot_travel(why: str) -> ParameterError:
    return ParameterError(
        f"executor: {why} What is handed to other processes and hosts is written as settings. "
        f"Leave it out, put classes of your own into a module that workers can import, or leave "
        f"out executor=..."
    )
