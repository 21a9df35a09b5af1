"""The base of networks: a pair of functions, `init` and `apply`."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

from fedloom.errors import unwritten
from fedloom.parameters import anything, param, parametrised
from fedloom.rows import Drawn, Spec
from fedloom.types import Array, Held, Tree

_PLAIN = (int, float, str, tuple, type(None))


class Model:
    """Base of the networks. All fields are static, so equal models share compiled programs."""

    __parametrised__: ClassVar[bool] = True

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh arrays for rows of this shape and so many classes."""
        raise unwritten(self, "init")

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs for rows x: one number for each class, or fitted values."""
        raise unwritten(self, "apply")

    def train_apply(self, arrays: Tree, x: Held, drawn: Drawn) -> Array:
        """The outputs while the network is trained: with dropout, where it has some.

        A row's draws must come from the key and the row's place in the batch alone
        (`fedloom.models.dropout`), because a batch is padded on one engine and not on the other.

        Args:
            arrays: As `init` returns them.
            x: The rows of a batch.
            drawn: The key by which they were drawn, or None, which draws nothing; and which of
                them count.
        """
        return self.apply(arrays, x)

    @property
    def trains_otherwise(self) -> bool:
        """Whether outputs differ between training and evaluation."""
        return False


class InTraining(Model):
    """A network on one batch that it is trained on."""

    def __init__(self, network: Model, drawn: Drawn) -> None:
        self.network = network
        self.drawn = drawn

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs in training."""
        return self.network.train_apply(arrays, x, self.drawn)


@parametrised
class Pair(Model):
    """A network of your own, from plain functions; `from_equinox` and `from_flax` take modules.

    `create(key, spec)` returns the arrays, `call(arrays, x)` the outputs for rows `x`, and where it
    is given `train(arrays, x, key)` those in training, with the key of the batch.
    """

    create: Callable[[Array, Spec], Tree] = param(anything, "function (key, spec) -> arrays")
    call: Callable[[Tree, Held], Array] = param(anything, "function (arrays, x) -> outputs")
    train: Callable[[Tree, Held, Array], Array] | None = param(
        anything, "function (arrays, x, key) -> outputs in training; none: as call", default=None
    )

    def __repr__(self) -> str:
        """The functions by their names, which are the same in every process."""
        return f"Pair({', '.join(map(_told, (self.create, self.call, self.train)))})"

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh arrays."""
        return self.create(key, spec)

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs."""
        return self.call(arrays, x)

    def train_apply(self, arrays: Tree, x: Held, drawn: Drawn) -> Array:
        """The outputs in training."""
        if self.train is None or drawn.key is None:
            return self.call(arrays, x)
        return self.train(arrays, x, drawn.key)

    @property
    def trains_otherwise(self) -> bool:
        """Whether a function for training was given."""
        return self.train is not None


def _told(function: Any) -> str:
    """A function by its name and the plain values that it was made with, or else as Python does."""
    if not isinstance(function, FunctionType):
        return repr(function)
    made_with = inspect.getclosurevars(function).nonlocals
    if not all(isinstance(value, _PLAIN) for value in made_with.values()):
        return repr(function)  # what it was made with may differ, and names would not tell
    shown = ", ".join(f"{name}={value!r}" for name, value in made_with.items())
    return f"{function.__module__}.{function.__qualname__}" + (f"({shown})" if shown else "")
