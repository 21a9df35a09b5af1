"""`fedloom check FILE.py:CLASS`: hold a method of your own to the laws of all methods."""

import argparse
import dataclasses
import inspect
import itertools
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from fedloom.checking.check import check
from fedloom.checking.examples import example, small_values
from fedloom.checking.laws import LAWS
from fedloom.cli.output import add_format, show_json
from fedloom.experiments import building
from fedloom.experiments.addresses import address, check_named, name_files_absolutely, thing_at
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.overrides import apply_overrides
from fedloom.experiments.registries import ALGORITHMS
from fedloom.protocol import Algorithm


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Exit status 1 if a law is broken; the smallest example of it is shown."
    parser.add_argument(
        "method", help="FILE.py:CLASS, PACKAGE.MODULE:CLASS, or a key from `list algorithms`"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the method, as in --set lr=0.1; the others get small values",
    )
    parser.add_argument(
        "--law", action="append", choices=tuple(LAWS), help="try this law only; may be repeated"
    )
    add_format(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    method = _method(arguments.method, arguments.set)
    tried = {*(arguments.law or LAWS), *(key for key, law in LAWS.items() if law.first)}
    number = itertools.count(1)
    with Console(stderr=True).status("reading the method") as status:

        def progress(law: str) -> None:
            status.update(f"{next(number)} of {len(tried)}: {law}")

        report = check(method, laws=arguments.law, progress=progress)
    if arguments.format == "json":
        show_json(report.as_dict())
    elif sys.stdout.isatty():
        Console().print(report)
    else:
        print(report)
    return 0 if report.ok else 1


def _found(text: str) -> Any:
    """What a key or an address stands for, whether it is a method or not."""
    check_named(text, Location("check", "", admit=whatever_is_named))
    named = {"kind": text}
    name_files_absolutely({"check": named}, Path.cwd())
    at, place = address(named["kind"]), Location("check", "", admit=whatever_is_named)
    return ALGORITHMS.find(text, place) if at is None else thing_at(at, place)


def _method(text: str, overrides: list[str]) -> Algorithm:
    """The method that a text names, with the parameters of the command line."""
    found = _found(text)
    tables: dict[str, Any] = {"algorithm": {}}
    apply_overrides(tables, (f"algorithm.{override}" for override in overrides))
    given, place = tables["algorithm"], Location("--set", "")
    if inspect.isclass(found) and issubclass(found, Algorithm) and "__leaves__" in vars(found):
        return building.construct(found, small_values(found, given), place)
    made: Any = example(found)
    values = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
    return building.construct(type(made), values | given, place) if given else made
