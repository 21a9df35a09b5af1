"""What a method sends in a round, and which of its settings cause that."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from fedloom.algorithms.entry import Kind, MethodEntry
from fedloom.data import from_arrays, from_parties
from fedloom.errors import ParameterError
from fedloom.exchange.secure.sums import why_not
from fedloom.exchange.transcript import Exchange, transcript
from fedloom.models import MLP
from fedloom.parameters import parameters_of
from fedloom.population import Federation, assemble
from fedloom.problems import AUC, Logistic, Personal, Problem, Vertical

CLIENTS, DIMENSION = 10, 100


def heading(chosen: MethodEntry) -> str:
    """What the numbers of the table are."""
    size = "s" if chosen.kind == "vertical" else "d"
    return (
        f"for {CLIENTS} clients and {size} = {DIMENSION}: 4-byte numbers to and from each client "
        f"asked"
    )


def messages(chosen: MethodEntry) -> list[dict[str, Any]]:
    """A row for each exchange of a round."""
    example = _example(chosen.kind)
    exchanges = transcript(chosen.example(), example)
    settings = _settings(chosen, example, exchanges)
    return [_message(exchange, settings) for exchange in exchanges]


def secure_aggregation(chosen: MethodEntry) -> str:
    """Whether secure sums apply, in words; and without which setting they do not."""
    example = _example(chosen.kind)
    obstacle = why_not(chosen.example(), example)
    if obstacle is not None:
        return f"does not apply: {obstacle}"
    for name, default in _defaults(chosen).items():
        with contextlib.suppress(ParameterError):  # a default that does not suit the example
            without = why_not(chosen.cls(**chosen.trial | {name: default}), example)
            if without is not None:
                return f"applies {_where(name, default)}; otherwise it does not: {without}"
    return "applies"


def _defaults(chosen: MethodEntry) -> dict[str, Any]:
    """The defaults of the parameters that the method's trial sets."""
    return {
        p.name: p.default
        for p in parameters_of(chosen.cls)
        if p.name in chosen.trial and p.default is not dataclasses.MISSING
    }


def _settings(
    chosen: MethodEntry, example: Federation, exchanges: list[Exchange]
) -> dict[tuple[str, ...], str]:
    """For what the defaults do without, the setting of the method's trial that asks for it.

    Keys are (method,) for an exchange and (method, way, array) for a part of a message.
    """

    def left_out(changed: dict[str, Any]) -> set[tuple[str, ...]]:
        try:
            said = transcript(chosen.cls(**chosen.trial | changed), example)
        except ParameterError:  # a default that does not suit the example, such as FedBN's norms
            return set()
        return _said(exchanges) - _said(said)

    defaults = _defaults(chosen)
    if not left_out(defaults):
        return {}
    return {
        item: f" ({_where(name, default)})"
        for name, default in defaults.items()
        for item in left_out({name: default})
    }


def _where(name: str, default: Any) -> str:
    return f"where {name} is {'set' if default is None else f'not {default}'}"


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


def _example(kind: Kind) -> Federation:
    """A federation of the stated size, for the shapes of messages only."""
    return _EXAMPLES[kind]()


def _of_rows(problem: Problem, features: int = DIMENSION) -> Federation:
    rows = (np.zeros((8, features)), np.arange(8) % 2)
    return assemble(problem, from_arrays([rows] * CLIENTS), 4, "float32")


def _of_columns() -> Federation:
    parties = from_parties([np.zeros((DIMENSION, 2))] * CLIENTS, np.zeros(DIMENSION))
    return assemble(Vertical(), parties, None, "float32")


def _of_networks() -> Federation:
    # Two weights for each feature with two biases, then four with two for the two classes.
    return _of_rows(Personal(MLP(hidden=(2,)), bits=2, keep=()), DIMENSION // 2 - 4)


_EXAMPLES: dict[Kind, Callable[[], Federation]] = {
    "smooth": lambda: _of_rows(Logistic()),
    "composite": lambda: _of_rows(Logistic()),
    "saddle": lambda: _of_rows(AUC(positive_rate=0.5)),
    "personal": _of_networks,
    "personal-alike": _of_networks,
    "vertical": _of_columns,
}
