"""`fedloom list`: what there is to choose from, and where it comes from."""

import argparse
from typing import Any

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.output import show_json, show_table
from fedloom.data.entries import DatasetEntry as Public
from fedloom.experiments.registries import ALL
from fedloom.experiments.registry import OWN, Known
from fedloom.metrics.catalogue import MetricEntry
from fedloom.problems.base import Metric

Row = dict[str, Any]
_LISTS = {registry.kind: registry for registry in ALL}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=sorted(_LISTS))
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    rows = [_row(arguments.what, known) for known in _LISTS[arguments.what].known()]
    if arguments.format == "json":
        show_json(rows)
    else:
        show_table(rows)
    return 0


def _row(kind: str, known: Known) -> Row:
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
    return row


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
