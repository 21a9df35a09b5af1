"""What the methods of this family keep: own models at the clients, a common one at the hub."""

from typing import Any, NamedTuple

from fedloom.oracles import PersonalOracle
from fedloom.parameters import fraction, param
from fedloom.types import Array


class CommonHub(NamedTuple):
    """The common model, which own models learn from or are held to."""

    model: Array


class IdleHub(NamedTuple):
    """A model that nobody trains, for those who ask the hub for one."""

    model: Array


class PersonalModel(NamedTuple):
    """A client's own model at full precision, and the steps it has taken."""

    model: Array
    steps: Array


def decay_param() -> Any:
    """The field for the decay of step sizes."""
    return param(
        fraction, "step sizes are multiplied by this in each pass over the rows", default=1.0
    )


def passes(steps: Array, f: PersonalOracle) -> Array:
    """How often a client has gone through its rows after so many steps."""
    return steps // f.batches
