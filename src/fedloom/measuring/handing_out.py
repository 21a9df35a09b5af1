"""Methods that hand out one model are measured by one program, whichever the method is.

Most methods leave their clients with the hub's model. What is measured then depends on that model
alone, and the program need not be read and compiled again for every method of a comparison.
"""

from typing import NamedTuple

from fedloom.hub_view import Fed
from fedloom.protocol import Algorithm
from fedloom.pytrees import pytree
from fedloom.rounds.compiling import reproducible
from fedloom.types import Array, Tree


class _Hub(NamedTuple):
    """The model that is handed out."""

    model: Array


@pytree
class _HandsOut(Algorithm):
    """Any method that hands out the hub's model, in the place of which it is measured."""


@pytree
class _HandsOutSeparate(Algorithm):
    """The same in a saddle problem in which every client has a dual of its own."""

    dual = "separate"


_ANY = {"shared": _HandsOut(), "separate": _HandsOutSeparate()}


def simplest(
    method: Algorithm, fed: Fed, hub: Tree, clients: tuple[Tree, ...]
) -> tuple[Algorithm, Tree, tuple[Tree, ...]]:
    """A method and states that are measured with the same outcome; where possible, any method's."""
    own = type(method)
    if (
        own.deployed is not Algorithm.deployed
        or own.other_models is not Algorithm.other_models
        or method.personal_models
    ):
        return method, hub, clients
    return _ANY[method.dual], _Hub(model_of(method, fed, hub)), tuple(() for _ in clients)


def model_of(method: Algorithm, fed: Fed, hub: Tree) -> Array:
    """The hub's model; where it is computed, by one program and not by one for each operation."""
    if type(method).model is Algorithm.model:
        return hub.model
    return _model(method, fed, hub)


@reproducible()
def _model(method: Algorithm, fed: Fed, hub: Tree) -> Array:
    return method.model(hub, fed)
