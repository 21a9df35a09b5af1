"""`fedloom list`: the things that settings files may name, where from, and how they are written."""

import argparse
import functools
from collections.abc import Callable
from typing import Any

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli import tables
from fedloom.cli.output import add_format, show_json, show_table
from fedloom.data.entries import DatasetEntry as Public
from fedloom.errors import ParameterError
from fedloom.experiments import building, samples
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.registries import ALL, REGULARISERS
from fedloom.experiments.registry import OWN, Known, Registry
from fedloom.hints import closest
from fedloom.metrics.catalogue import MetricEntry
from fedloom.problems.base import Metric
from fedloom.problems.constraints import is_constraint
from fedloom.problems.regularisers import Zero

Row = dict[str, Any]


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "what", nargs="?", metavar="WHAT", help=f"{', '.join(LISTS)}; without it, the lists"
    )
    add_format(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    if arguments.what is None:
        rows = [
            {"list": name, "entries": len(made()), "what they are": _MEANINGS[name]}
            for name, made in LISTS.items()
        ]
    elif arguments.what in LISTS:
        rows = LISTS[arguments.what]()
    else:
        raise ParameterError(
            f"list: WHAT must be one of the lists; got {arguments.what!r}. "
            f"{closest(arguments.what, LISTS)}"
        )
    if arguments.format == "json":
        show_json(rows)
        return 0
    hidden = {"class"} | ({"from"} if all(row.get("from") == OWN for row in rows) else set())
    show_table(rows, columns=[name for name in rows[0] if name not in hidden])
    if arguments.what is None:
        print("`fedloom list LIST` shows one of them, as in `fedloom list algorithms`")
    else:
        print("`fedloom explain KEY` says more of each, and how it stands in a settings file")
    return 0


def _rows(registry: Registry[Any], fits: Callable[[Known], bool] = lambda known: True) -> list[Row]:
    return [_row(registry, known) for known in registry.known() if fits(known)]


def _row(registry: Registry[Any], known: Known) -> Row:
    kind = registry.kind
    row: Row = {"key": known.key, "from": known.source}
    if kind == "algorithms":
        entry = CATALOGUE[known.key] if known.source == OWN else None
        row |= {"family": entry and entry.family, "paper": entry and entry.paper}
    if kind not in ("datasets", "metrics"):
        row["class"] = known.thing and known.thing.__name__
    if isinstance(known.thing, MetricEntry):
        better = "larger" if known.thing.larger_is_better else "smaller"
        row |= {"better": better, "problems": known.thing.problems}
    row["about"] = f"cannot be used: {known.error}" if known.error else about(known.thing)
    if kind == "datasets":
        public = known.thing if isinstance(known.thing, Public) else None
        row |= {"licence": public and public.licence, "source": public and public.source}
    if known.thing is not None:
        row["in a settings file"] = samples.sample(registry, known.key, known.thing).line
    return row


def _is_constraint(known: Known) -> bool:
    if known.thing is None or known.thing is Zero:
        return False
    table = {"kind": known.key, **samples.values(known.thing, known.key)}
    place = Location("list", "", admit=whatever_is_named)
    return is_constraint(building.build(REGULARISERS, table, place, tag="kind"))


def _tables() -> list[Row]:
    """The tables of a settings file."""
    return [{"key": t.key, "about": t.about, "names": t.see} for t in tables.TABLES.values()]


LISTS: dict[str, Callable[[], list[Row]]] = {
    **{registry.kind: functools.partial(_rows, registry) for registry in ALL},
    "constraints": lambda: _rows(REGULARISERS, _is_constraint),
    "tables": _tables,
}

_MEANINGS = {
    "algorithms": "methods, from averaging to vertical data",
    "wrappers": "noise, drop-outs, compression or defence around a method",
    "problems": "what is optimised: the loss, and whose model it is",
    "regularisers": "penalties and constraints of a problem",
    "models": "networks that a problem may train",
    "solvers": "how a client solves the saddle problem of its own",
    "compressors": "how messages become smaller",
    "aggregators": "ways to join replies that withstand malicious clients",
    "schedules": "how a step size changes with the rounds",
    "optimisers": "the kind of local steps",
    "partitions": "how one dataset is divided over clients",
    "datasets": "public data, of which some come with fedloom",
    "metrics": "what is measured, with how it is spread over clients",
    "constraints": "those of the regularisers that keep a model in a set",
    "tables": "what stands where in a settings file",
}


def about(thing: Any) -> str:
    """What something is, in a line."""
    if isinstance(thing, MetricEntry):
        return thing.about
    if isinstance(thing, Public):
        return thing.description
    return first_line(thing.function if isinstance(thing, Metric) else thing)


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return next(iter((thing.__doc__ or "").strip().splitlines()), "")
