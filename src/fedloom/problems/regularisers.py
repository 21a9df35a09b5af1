"""Regularisers g(x), known through their proximal maps; `constraints.py` has those of sets.

Each acts on the arrays of a model: on all of them except biases, or on those named by `on`.
`Sum` puts different ones on different arrays.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fedloom.errors import ParameterError, unwritten
from fedloom.layout import FREE, layout_of
from fedloom.operators import proximal
from fedloom.parameters import Rule, at_least, at_least_zero, param, parametrised
from fedloom.types import Array, Tree

_names = Rule(
    lambda v: isinstance(v, tuple) and len(v) > 0 and all(isinstance(name, str) for name in v),
    "a list of names",
    ("weights",),
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
)


def on_param() -> Any:
    """The field for the arrays that a regulariser acts on."""
    return param(_names.or_none("all but biases"), "names of the arrays it acts on", default=None)


class Regulariser:
    """A convex g(x) with a cheap proximal map."""

    __parametrised__: ClassVar[bool] = True
    on: tuple[str, ...] | None = None  # names of arrays

    def value_of(self, array: Array) -> Array:
        """The value of g on one array."""
        raise unwritten(self, "value_of")

    def prox_of(self, array: Array, step: Array) -> Array:
        """The proximal map of step * g on one array."""
        raise unwritten(self, "prox_of")

    def subgradient_of(self, array: Array) -> Array:
        """A subgradient of g on one array, the smallest one at a kink."""
        raise ParameterError(
            f"{type(self).__name__} is a constraint and has no subgradient to step along. "
            f"Use its proximal map: regularise = 'prox'."
        )

    def value(self, model: Tree) -> Array:
        """The value g(x) on a whole model."""
        return sum(map(self.value_of, self._targets(model)), start=jnp.zeros(()))

    def prox(self, model: Tree, step: Array) -> Tree:
        """The proximal map of step * g on a whole model."""
        return self._on_targets(lambda array: self.prox_of(array, step), model)

    def subgradient(self, model: Tree) -> Tree:
        """A subgradient of g on a whole model; zero on arrays that it does not act on."""
        slope = self._on_targets(self.subgradient_of, model)
        leaves = [
            leaf if chosen else jnp.zeros_like(leaf)
            for chosen, leaf in zip(self.acts_on(model), jax.tree.leaves(slope), strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(model), leaves)

    def acts_on(self, model: Tree) -> Sequence[bool]:
        """For each array of a model, whether it acts on it."""
        names = layout_of(lambda: model).names
        if self.on is None:
            return [name not in FREE for name in names]
        unknown = [name for name in self.on if name not in names]
        if unknown:
            raise ParameterError(_no_such_array(type(self).__name__, unknown[0], names))
        return [name in self.on for name in names]

    def _targets(self, model: Tree) -> list[Array]:
        both = zip(self.acts_on(model), jax.tree.leaves(model), strict=True)
        return [leaf for chosen, leaf in both if chosen]

    def _on_targets(self, change: Callable[[Array], Array], model: Tree) -> Tree:
        both = zip(self.acts_on(model), jax.tree.leaves(model), strict=True)
        leaves = [change(leaf) if chosen else leaf for chosen, leaf in both]
        return jax.tree.unflatten(jax.tree.structure(model), leaves)


def _no_such_array(owner: str, name: str, names: Sequence[str]) -> str:
    """What to say of a name that would choose nothing, so that the model would go unpenalised."""
    there = ", ".join(map(repr, dict.fromkeys(filter(None, names))))
    hint = f"Choose among {there}" if there else "It is one array without a name: leave on out"
    return f"{owner}: on must name arrays that the model has; got {name!r}. {hint}."


@parametrised
class Zero(Regulariser):
    """No regulariser: g = 0."""

    def acts_on(self, model: Tree) -> Sequence[bool]:
        """None of them."""
        return [False for _ in jax.tree.leaves(model)]

    def value(self, model: Tree) -> Array:
        """Zero."""
        return jnp.zeros(())

    def prox(self, model: Tree, step: Array) -> Tree:
        """The identity."""
        return model

    def subgradient(self, model: Tree) -> Tree:
        """Zero."""
        return jax.tree.map(jnp.zeros_like, model)


@parametrised
class L1(Regulariser):
    """g(x) = strength |x|_1: sparse models."""

    strength: float = param(at_least_zero, "weight of the l1 norm")
    on: tuple[str, ...] | None = on_param()

    def value_of(self, array: Array) -> Array:
        """The value on one array."""
        return self.strength * jnp.abs(array).sum()

    def prox_of(self, array: Array, step: Array) -> Array:
        """Soft thresholding."""
        return proximal.soft_threshold(array, step * self.strength)

    def subgradient_of(self, array: Array) -> Array:
        """The signs, 0 at 0."""
        return self.strength * jnp.sign(array)


@parametrised
class GroupL1(Regulariser):
    """g(x) = strength * sum of the norms of groups: whole rows, or blocks of a vector, vanish."""

    strength: float = param(at_least_zero, "weight of the sum of norms")
    block: int | None = param(
        at_least(1).or_none("the rows of a matrix"), "length of a group", default=None
    )
    on: tuple[str, ...] | None = on_param()

    def value_of(self, array: Array) -> Array:
        """The value on one array."""
        return self.strength * jnp.linalg.norm(self._rows(array), axis=-1).sum()

    def prox_of(self, array: Array, step: Array) -> Array:
        """Each group shrinks towards zero as a whole."""
        rows = proximal.group_soft_threshold(self._rows(array), step * self.strength)
        return rows.reshape(array.shape)

    def subgradient_of(self, array: Array) -> Array:
        """Each group's direction, 0 for a group that vanished."""
        rows = self._rows(array)
        norms = jnp.sqrt(jnp.sum(rows * rows, axis=-1, keepdims=True))
        return (self.strength * rows / jnp.where(norms > 0, norms, 1)).reshape(array.shape)

    def _rows(self, array: Array) -> Array:
        if self.block is not None and array.size % self.block:
            raise ParameterError(
                f"GroupL1: block must divide the size of every array it acts on; got {self.block} "
                f"for an array of shape {array.shape}. Choose a divisor of {array.size}, or name "
                f"arrays that it divides with on=..."
            )
        width = (array.shape or (1,))[-1] if self.block is None else self.block
        return array.reshape(array.size // max(width, 1), width)  # an empty array has no groups


@parametrised
class ElasticNet(Regulariser):
    """g(x) = l1 |x|_1 + (l2 / 2) |x|^2."""

    l1: float = param(at_least_zero, "weight of the l1 norm")
    l2: float = param(at_least_zero, "weight of the squared norm")
    on: tuple[str, ...] | None = on_param()

    def value_of(self, array: Array) -> Array:
        """The value on one array."""
        return self.l1 * jnp.abs(array).sum() + 0.5 * self.l2 * (array * array).sum()

    def prox_of(self, array: Array, step: Array) -> Array:
        """Soft thresholding, then shrinking."""
        return proximal.elastic_net(array, step, self.l1, self.l2)

    def subgradient_of(self, array: Array) -> Array:
        """The signs, 0 at 0, and the gradient of the square."""
        return self.l1 * jnp.sign(array) + self.l2 * array


@parametrised
class NuclearNorm(Regulariser):
    """g(X) = strength * sum of the singular values: matrix models of low rank."""

    strength: float = param(at_least_zero, "weight of the nuclear norm")
    on: tuple[str, ...] | None = on_param()

    def value_of(self, array: Array) -> Array:
        """The value on one matrix."""
        self._check(array)
        return self.strength * jnp.linalg.svd(array, compute_uv=False).sum()

    def prox_of(self, array: Array, step: Array) -> Array:
        """Soft thresholding of the singular values."""
        self._check(array)
        return proximal.singular_value_threshold(array, step * self.strength)

    def subgradient_of(self, array: Array) -> Array:
        """U V' over the singular values that are not zero."""
        self._check(array)
        left, values, right = jnp.linalg.svd(array, full_matrices=False)
        return self.strength * (left * (values > 0)) @ right

    def _check(self, array: Array) -> None:
        if array.ndim < 2:
            raise ParameterError(
                f"NuclearNorm is for models that are matrices; this one is an array of shape "
                f"{array.shape}. Take Multinomial or a network, name the matrices with on=..., or "
                f"use L1."
            )


_parts = Rule(
    lambda v: isinstance(v, tuple) and len(v) > 0 and all(isinstance(p, Regulariser) for p in v),
    "a list of regularisers",
    None,
)


@parametrised
class Sum(Regulariser):
    """Several regularisers, each on arrays of its own."""

    parts: tuple[Regulariser, ...] = param(_parts, "the regularisers")

    def value(self, model: Tree) -> Array:
        """The sum of the parts."""
        return sum((part.value(model) for part in self.parts), start=jnp.zeros(()))

    def prox(self, model: Tree, step: Array) -> Tree:
        """The proximal maps of the parts; exact because they act on different arrays."""
        self._check_apart(model)
        for part in self.parts:
            model = part.prox(model, step)
        return model

    def acts_on(self, model: Tree) -> Sequence[bool]:
        """Whether one of the parts does."""
        each = [part.acts_on(model) for part in self.parts]
        return [any(chosen) for chosen in zip(*each, strict=True)]

    def _check_apart(self, model: Tree) -> None:
        """Refuse two parts on one array: one map after the other is not the map of their sum."""
        each = [part.acts_on(model) for part in self.parts]
        for name, *chosen in zip(layout_of(lambda: model).full_names, *each, strict=True):
            both = [part for part, acts in zip(self.parts, chosen, strict=True) if acts]
            if len(both) > 1:
                array = repr(name) if name else "the model's only array"
                raise ParameterError(
                    f"Sum: parts must act on different arrays; got "
                    f"{' and '.join(type(part).__name__ for part in both)} on {array}. Name the "
                    f"arrays of each with on=..., or take one of them, such as ElasticNet."
                )

    def subgradient(self, model: Tree) -> Tree:
        """The sum of the parts' subgradients."""
        slopes = [part.subgradient(model) for part in self.parts]
        return jax.tree.map(lambda *leaves: sum(leaves), *slopes)
