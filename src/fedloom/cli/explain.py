"""`fedloom explain KEY`: what a method solves, its parameters and messages; what a part does."""

import argparse
import dataclasses
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fedloom
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.entry import MethodEntry
from fedloom.checking.federations import kind_for
from fedloom.cli import messages, tables
from fedloom.cli.listing import about
from fedloom.cli.output import add_format, show_json, show_table
from fedloom.data.entries import DatasetEntry
from fedloom.errors import ParameterError
from fedloom.experiments import readers, samples, toml
from fedloom.experiments.addresses import check_named, name_files_absolutely
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.registries import ALGORITHMS, DATASETS, find_anywhere
from fedloom.experiments.registry import Registry
from fedloom.metrics.catalogue import MetricEntry

Described = dict[str, Any]  # plain values, for JSON
_NOT_THE_USERS = ("inner", "secret")  # parameters of wrappers that no settings file holds


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "key",
        help="a key from `fedloom list`, a table of settings files such as run, or an address such "
        "as my_method.py:MyMethod",
    )
    add_format(parser, ("text", "json"))
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    told = explanations(arguments.key)
    if arguments.format == "json":
        plain = {kind: described for kind, (described, _) in told.items()}
        show_json(plain if len(plain) > 1 else next(iter(plain.values())))
        return 0
    for number, (described, show) in enumerate(told.values()):
        if number:
            print()
        show(described)
    return 0


Explained = tuple[Described, Callable[[Described], None]]  # what is known, and how it is shown


def explanations(key: str) -> dict[str, Explained]:
    """What a key or an address stands for, by kind."""
    if key in tables.TABLES:
        return {"tables": (tables.describe(tables.TABLES[key]), tables.show)}
    named = {"kind": key}
    name_files_absolutely({"explain": named}, Path.cwd())
    place = Location("explain", "", admit=whatever_is_named)
    check_named(key, place)
    found = find_anywhere(named["kind"], place, also=tables.TABLES)
    return {registry.kind: _explained(key, registry, thing) for registry, thing in found}


def _explained(key: str, registry: Registry[Any], thing: Any) -> Explained:
    if registry is ALGORITHMS and (chosen := _entry(key, thing)) is not None:
        return describe(chosen), functools.partial(_show_method, chosen)
    if isinstance(thing, MetricEntry):
        return _metric(thing, registry), _show_metric
    return _other(key, registry, thing), _show_other


def _entry(key: str, cls: Any) -> MethodEntry | None:
    """The method's entry in the catalogue, or one like it; None where no example can be made."""
    if key in CATALOGUE:
        return CATALOGUE[key]
    trial = {
        field.name: field.metadata["rule"].example
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.metadata
    }
    try:
        cls(**trial)
        return MethodEntry(key, cls, "", paper="", solves="", trial=trial, kind=kind_for(cls))
    except ParameterError:
        return None


def describe(chosen: MethodEntry) -> Described:
    """All that is known of a method, as plain values."""
    return {
        "key": chosen.key,
        "class": chosen.name,
        "family": chosen.family,
        "paper": chosen.paper,
        "solves": chosen.solves,
        "about": _whole_about(chosen.cls),
        "parameters": tables.parameter_rows(chosen.cls),
        "messages": messages.messages(chosen),
        "secure_aggregation": messages.secure_aggregation(chosen),
        "toml": toml.document(samples.method_file(chosen.key, chosen.cls)),
        "source": source(chosen.cls),
    }


def _show_method(chosen: MethodEntry, described: Described) -> None:
    family = f", family {chosen.family}" if chosen.family else ""
    print(f"{chosen.key}: {chosen.name}{family}\n")
    if chosen.solves:
        print(f"Solves  {chosen.solves}\n")
    print(f"{described['about']}\n")
    if described["parameters"]:
        show_table(described["parameters"], title="Parameters")
    else:
        print("Parameters: none")
    print(f"\nMessages of a round, {messages.heading(chosen)}")
    show_table(described["messages"])
    print(f"\nSecure aggregation {described['secure_aggregation']}")
    print(f"\nA settings file for it\n\n{textwrap.indent(described['toml'], '    ')}")
    print(f"Source: {described['source']}")


def _other(key: str, registry: Registry[Any], thing: Any) -> Described:
    kind = registry.kind.removesuffix("s")
    described: Described = {"key": key, "class": getattr(thing, "__name__", kind), "kind": kind}
    if dataclasses.is_dataclass(thing) and isinstance(thing, type):
        # Methods and wrappers have a file of their own, which begins with what they do.
        whole = registry.kind in ("algorithms", "wrappers")
        text = _whole_about(thing) if whole else inspect.cleandoc(thing.__doc__ or "")
        rows = [row for row in tables.parameter_rows(thing) if row["name"] not in _NOT_THE_USERS]
    elif registry is DATASETS:
        text, rows = about(thing), [tables.option_row(o) for o in readers.options_of_data(thing)]
    else:
        text, rows = about(thing), []
    found = samples.sample(registry, key, thing)
    described |= {"about": text, "parameters": rows, "toml": found.placed}
    return described | {"source": source(thing)}


def _show_other(described: Described) -> None:
    kind = described["kind"]
    article = "an" if kind[0] in "aeiou" else "a"
    print(f"{described['key']}: {described['class']}, {article} {kind}\n\n{described['about']}\n")
    if described["parameters"]:
        show_table(described["parameters"], title="Parameters")
    print(f"\nIn a settings file\n\n{textwrap.indent(described['toml'], '    ')}")
    if described["source"]:
        print(f"\nSource: {described['source']}")


def _metric(metric: MetricEntry, registry: Registry[Any]) -> Described:
    better = "larger" if metric.larger_is_better else "smaller"
    line = samples.sample(registry, metric.key, metric).placed
    return {**metric._asdict(), "better": better, "toml": line}


def _show_metric(described: Described) -> None:
    print(f"{described['key']}: {described['about']}\n\n    {described['formula']}\n")
    for title, text in (
        ("For", described["problems"]),
        ("Better", described["better"]),
        ("Columns", described["columns"]),
        ("Over a network", described["network"]),
    ):
        print(textwrap.fill(f"{title}: {text}", 100, subsequent_indent="    "))
    print(f"\nIn a settings file\n\n{textwrap.indent(described['toml'], '    ')}")


def _whole_about(cls: type) -> str:
    """The paper in small, with which fedloom's own files begin; of others, their class first."""
    of_file = inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "")
    of_class = inspect.cleandoc(cls.__doc__ or "") if "__doc__" in vars(cls) else ""
    if cls.__module__.partition(".")[0] == fedloom.__name__:
        return of_file or of_class
    return "\n\n".join(text for text in (of_class, of_file) if text)


def source(thing: Any) -> str:
    """Where the code of a thing is: a path within the package, or that of the user's file."""
    if isinstance(thing, DatasetEntry) or not callable(thing):
        return ""
    try:
        file, line = inspect.getsourcefile(thing), inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return ""
    home = Path(fedloom.__file__).parents[1]
    path = Path(file or "")
    shown = path.relative_to(home).as_posix() if path.is_relative_to(home) else str(path)
    return f"{shown}, line {line}"
