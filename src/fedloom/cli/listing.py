"""`fedloom list`: what there is to choose from."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from fedloom.algorithms.catalogue import CATALOGUE as ALGORITHMS
from fedloom.algorithms.wrappers import WRAPPERS
from fedloom.cli.output import show_json, show_table
from fedloom.data import CATALOGUE as DATASETS
from fedloom.data import SCHEMES
from fedloom.experiments.building import AGGREGATORS, PROBLEMS
from fedloom.metrics.catalogue import CATALOGUE as METRICS

Rows = list[dict[str, Any]]


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=sorted(_LISTS))
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    rows = _LISTS[arguments.what]()
    if arguments.format == "json":
        show_json(rows)
    else:
        show_table(rows)
    return 0


def _algorithms() -> Rows:
    return [
        {
            "key": entry.key,
            "family": entry.family,
            "class": entry.name,
            "paper": entry.paper,
            "about": first_line(entry.cls),
        }
        for entry in ALGORITHMS.values()
    ]


def _classes(registry: Mapping[str, type]) -> Rows:
    return [
        {"key": key, "class": cls.__name__, "about": first_line(cls)}
        for key, cls in registry.items()
    ]


def _datasets() -> Rows:
    return [
        {"key": key, "about": entry.description, "licence": entry.licence, "source": entry.source}
        for key, entry in DATASETS.items()
    ]


def _metrics() -> Rows:
    return [
        {
            "key": entry.key,
            "better": "larger" if entry.larger_is_better else "smaller",
            "problems": entry.problems,
            "about": entry.about,
        }
        for entry in METRICS.values()
    ]


def first_line(cls: type) -> str:
    """What a class is, in a line."""
    return (cls.__doc__ or "").strip().splitlines()[0]


_LISTS: dict[str, Callable[[], Rows]] = {
    "algorithms": _algorithms,
    "aggregators": lambda: _classes(AGGREGATORS),
    "problems": lambda: _classes(PROBLEMS),
    "metrics": _metrics,
    "datasets": _datasets,
    "partitions": lambda: _classes(SCHEMES),
    "wrappers": lambda: _classes(WRAPPERS),
}
