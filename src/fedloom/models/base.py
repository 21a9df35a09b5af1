"""What a network is: a pair of functions."""

from collections.abc import Callable
from typing import ClassVar

from fedloom.parameters import anything, param, parametrised
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree


class Model:
    """Base of the networks. All fields are static, so equal models share compiled programs."""

    __parametrised__: ClassVar[bool] = True

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh arrays for rows of this shape and so many classes."""
        raise NotImplementedError

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs for rows x: one number for each class, or fitted values."""
        raise NotImplementedError


@parametrised
class Pair(Model):
    """A network of your own, from plain functions; `from_equinox` and `from_flax` take modules.

    `create(key, spec)` returns the arrays, `call(arrays, x)` the outputs for rows `x`.
    """

    create: Callable[[Array, Spec], Tree] = param(anything, "function (key, spec) -> arrays")
    call: Callable[[Tree, Held], Array] = param(anything, "function (arrays, x) -> outputs")

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh arrays."""
        return self.create(key, spec)

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs."""
        return self.call(arrays, x)
