"""`fedloom explain KEY`: what a method solves, its parameters and messages; what a part does."""

import argparse
import dataclasses
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.entry import MethodEntry
from fedloom.cli.listing import about
from fedloom.cli.output import show_json, show_table
from fedloom.data import from_arrays, from_parties
from fedloom.errors import ParameterError
from fedloom.exchange.secure.sums import why_not
from fedloom.exchange.transcript import Exchange, transcript
from fedloom.experiments.addresses import name_files_absolutely
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.registries import ALGORITHMS, find_anywhere
from fedloom.experiments.registry import Registry
from fedloom.metrics.catalogue import MetricEntry
from fedloom.models import MLP
from fedloom.parameters import parameters_of
from fedloom.population import Federation, assemble
from fedloom.problems import AUC, Logistic, Personal, Problem, Vertical

_CLIENTS, _DIMENSION = 10, 100
Described = dict[str, Any]


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "key", help="a key from `fedloom list`, or an address such as my_method.py:MyMethod"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    named = {"kind": arguments.key}
    name_files_absolutely({"explain": named}, Path.cwd())
    place = Location("explain", "", admit=whatever_is_named)
    found = find_anywhere(named["kind"], place)
    told = {}
    for number, (registry, thing) in enumerate(found):
        if number and arguments.format == "text":
            print()
        told[registry.kind] = _explain(arguments.key, registry, thing, arguments.format)
    if arguments.format == "json":
        show_json(told if len(told) > 1 else told[found[0][0].kind])
    return 0


def _explain(key: str, registry: Registry[Any], thing: Any, form: str) -> Described:
    """What is known of a thing; as text it is printed."""
    if registry is ALGORITHMS and (chosen := _entry(key, thing)) is not None:
        return _explain_method(chosen, form)
    if isinstance(thing, MetricEntry):
        return _explain_metric(thing, form)
    return _explain_other(key, registry.kind.removesuffix("s"), thing, form)


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
    except ParameterError:
        return None
    return MethodEntry(key, cls, family="", paper="", solves="", trial=trial, kind=cls.takes)


def _explain_method(chosen: MethodEntry, form: str) -> Described:
    described = describe(chosen)
    if form == "json":
        return described
    family = f", family {chosen.family}" if chosen.family else ""
    print(f"{chosen.key}: {chosen.name}{family}\n")
    if chosen.solves:
        print(f"Solves  {chosen.solves}\n")
    print(f"{described['about']}\n")
    show_table(described["parameters"], title="Parameters")
    print(
        f"\nMessages of a round, for {_CLIENTS} clients and "
        f"{'s' if chosen.kind == 'vertical' else 'd'} = {_DIMENSION}: "
        f"4-byte numbers to and from each client asked"
    )
    show_table(described["messages"])
    print(f"\nSecure aggregation {described['secure_aggregation']}")
    return described


def _explain_other(key: str, kind: str, thing: Any, form: str) -> Described:
    described: dict[str, Any] = {"key": key, "class": getattr(thing, "__name__", kind)}
    if dataclasses.is_dataclass(thing) and isinstance(thing, type):
        rows = [row for row in _parameters(thing) if row["name"] not in ("inner", "secret")]
        whole = kind in ("algorithm", "wrapper")  # these have a file of their own
        text = _about(thing) if whole else inspect.cleandoc(thing.__doc__ or "")
        described |= {"about": text, "parameters": rows}
    else:
        described |= {"about": about(thing), "parameters": []}
    if form == "json":
        return described
    article = "an" if kind[0] in "aeiou" else "a"
    print(f"{key}: {described['class']}, {article} {kind}\n\n{described['about']}\n")
    if described["parameters"]:
        show_table(described["parameters"], title="Parameters")
    return described


def _explain_metric(metric: MetricEntry, form: str) -> Described:
    better = "larger" if metric.larger_is_better else "smaller"
    described = {**metric._asdict(), "better": better}
    if form == "json":
        return described
    print(f"{metric.key}: {metric.about}\n\n    {metric.formula}\n")
    for title, text in (
        ("For", metric.problems),
        ("Better", better),
        ("Columns", metric.columns),
        ("Over a network", metric.network),
    ):
        print(textwrap.fill(f"{title}: {text}", 100, subsequent_indent="    "))
    return described


def _about(cls: type) -> str:
    return inspect.cleandoc(sys.modules[cls.__module__].__doc__ or cls.__doc__ or "")


def _parameters(cls: type) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter.name,
            "rule": parameter.rule,
            "default": "required"
            if parameter.default is dataclasses.MISSING
            else str(parameter.default),
            "meaning": parameter.doc,
        }
        for parameter in parameters_of(cls)
    ]


def describe(chosen: MethodEntry) -> dict[str, Any]:
    """All that is known of a method, as plain values."""
    example = _example(chosen.kind)
    exchanges = transcript(chosen.example(), example)
    settings = _settings(chosen, example, exchanges)
    obstacle = why_not(chosen.example(), example)
    return {
        "key": chosen.key,
        "class": chosen.name,
        "family": chosen.family,
        "paper": chosen.paper,
        "solves": chosen.solves,
        "about": _about(chosen.cls),
        "parameters": _parameters(chosen.cls),
        "messages": [_message(exchange, settings) for exchange in exchanges],
        "secure_aggregation": "applies" if obstacle is None else f"does not apply: {obstacle}",
    }


def _settings(
    chosen: MethodEntry, example: Federation, exchanges: list[Exchange]
) -> dict[tuple[str, ...], str]:
    """For what the defaults do without, the setting of the method's trial that asks for it.

    Keys are (method,) for an exchange and (method, way, array) for a part of a message.
    """

    def left_out(changed: dict[str, Any]) -> set[tuple[str, ...]]:
        said = transcript(chosen.cls(**chosen.trial | changed), example)
        return _said(exchanges) - _said(said)

    defaults = {
        p.name: p.default
        for p in parameters_of(chosen.cls)
        if p.name in chosen.trial and p.default is not dataclasses.MISSING
    }
    if not left_out(defaults):
        return {}
    return {
        item: f" (where {name} is {'set' if default is None else f'not {default}'})"
        for name, default in defaults.items()
        for item in left_out({name: default})
    }


def _said(exchanges: list[Exchange]) -> set[tuple[str, ...]]:
    methods = {(exchange.method,) for exchange in exchanges}
    arrays = {
        (exchange.method, way, array)
        for exchange in exchanges
        for way, sizes in (("down", exchange.down), ("up", exchange.up))
        for array in sizes
    }
    return methods | arrays


def _message(exchange: Exchange, settings: dict[tuple[str, ...], str]) -> dict[str, Any]:
    method = exchange.method
    whole = settings.get((method,), "")
    occasion = f" ({exchange.occasion})" if exchange.occasion else ""

    def listed(way: str, sizes: dict[str, int]) -> str:
        parts = [
            array + ("" if whole else settings.get((method, way, array), "")) for array in sizes
        ]
        return ", ".join(parts) or "nothing"

    return {
        "method": method + whole + occasion,
        "down": sum(exchange.down.values()) // 4,
        "up": sum(exchange.up.values()) // 4,
        "what goes down": listed("down", exchange.down),
        "what comes up": listed("up", exchange.up),
    }


def _example(kind: str) -> Federation:
    """A federation of the stated size, for the shapes of messages only."""
    if kind == "vertical":
        parties = from_parties([np.zeros((_DIMENSION, 2))] * _CLIENTS, np.zeros(_DIMENSION))
        return assemble(Vertical(), parties, None, "float32")
    problem: Problem = Logistic()
    features = _DIMENSION
    if kind.startswith("personal"):
        features = _DIMENSION // 2 - 1  # with two classes: two weights each, and two biases
        problem = Personal(MLP(hidden=()), bits=2, keep=())
    elif kind == "saddle":
        problem = AUC(positive_rate=0.5)
    rows = (np.zeros((8, features)), np.arange(8) % 2)
    return assemble(problem, from_arrays([rows] * _CLIENTS), 4, "float32")
