"""The state of an earlier run, checked and put back into the structure of its method."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.errors import ParameterError, WireError
from fedloom.exchange import wire
from fedloom.measuring.result import Result
from fedloom.rounds.program import State
from fedloom.types import Tree

_TOLD = {  # of `Result.about`, in words
    "algorithm": "method",
    "problem": "problem",
    "clients": "number of clients",
    "precision": "precision",
}


def state_of(
    what: str, earlier: Result, now: Mapping[str, Any], hub: Tree, clients: tuple[Tree, ...]
) -> State:
    """The state of an earlier run, put together from its arrays; files omit empty states.

    Args:
        what: The parameter that took the earlier run and its function, for messages.
        earlier: The earlier run.
        now: What `Result.about` would say of the method, the problem, ... that are given now.
        hub: The shapes of the hub's state.
        clients: The shapes of the clients' states, for each group.
    """
    like = State(np.zeros((), np.int64), hub, clients)
    try:
        restored: State = wire.from_named(wire.named(earlier.state), like)
    except WireError:  # in the words of a network
        raise ParameterError(
            f"{what} must be a result of the same method on the same problem, clients and "
            f"precision; {_unlike(earlier, now)}. Pass them as they were in that run."
        ) from None
    return restored


def _unlike(earlier: Result, now: Mapping[str, Any]) -> str:
    """How the arguments differ from those of an earlier run, as far as is known."""
    differ = [
        f"its {word} was {earlier.about[name]}, and here it is {now[name]}"
        for name, word in _TOLD.items()
        if name in now and earlier.about.get(name, now[name]) != now[name]
    ]
    if differ:
        return "; ".join(differ)
    return "its state has other arrays, as with other columns, classes or rows of the clients"
