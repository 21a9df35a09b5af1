"""`fedloom explain KEY`: a method, with its parameters and messages; a wrapper; or a metric."""

import argparse
import dataclasses
import inspect
import sys
import textwrap
from typing import Any

import numpy as np

from fedloom.algorithms.catalogue import entry
from fedloom.algorithms.entry import Entry
from fedloom.algorithms.wrappers import WRAPPERS
from fedloom.cli.output import show_json, show_table
from fedloom.data import from_arrays, from_parties
from fedloom.exchange.secure.sums import why_not
from fedloom.exchange.transcript import Exchange, transcript
from fedloom.metrics.catalogue import CATALOGUE as METRICS
from fedloom.metrics.catalogue import Entry as Metric
from fedloom.models import MLP
from fedloom.parameters import parameters_of
from fedloom.population import Federation, assemble
from fedloom.problems import AUC, Logistic, Personal, Problem, Vertical

_CLIENTS, _DIMENSION = 10, 100


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "key", help="a key from `fedloom list algorithms`, `list wrappers` or `list metrics`"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    if arguments.key in WRAPPERS:
        return _explain_wrapper(arguments.key, arguments.format)
    if arguments.key in METRICS:
        return _explain_metric(METRICS[arguments.key], arguments.format)
    chosen = entry(arguments.key)
    described = describe(chosen)
    if arguments.format == "json":
        show_json(described)
        return 0
    print(f"{chosen.key}: {chosen.name}, family {chosen.family}\n")
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
    return 0


def _explain_wrapper(key: str, form: str) -> int:
    cls = WRAPPERS[key]
    parameters = [row for row in _parameters(cls) if row["name"] not in ("inner", "secret")]
    described = {"key": key, "class": cls.__name__, "about": _about(cls), "parameters": parameters}
    if form == "json":
        show_json(described)
        return 0
    print(f"{key}: {cls.__name__}, a wrapper\n\n{described['about']}\n")
    show_table(parameters, title="Parameters")
    return 0


def _explain_metric(metric: Metric, form: str) -> int:
    better = "larger" if metric.larger_is_better else "smaller"
    if form == "json":
        show_json({**metric._asdict(), "better": better})
        return 0
    print(f"{metric.key}: {metric.about}\n\n    {metric.formula}\n")
    for title, text in (
        ("For", metric.problems),
        ("Better", better),
        ("Columns", metric.columns),
        ("Over a network", metric.network),
    ):
        print(textwrap.fill(f"{title}: {text}", 100, subsequent_indent="    "))
    return 0


def _about(cls: type) -> str:
    return inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "")


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


def describe(chosen: Entry) -> dict[str, Any]:
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
    chosen: Entry, example: Federation, exchanges: list[Exchange]
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
