"""Regularisers and constraints g(x), known through their proximal maps.

Each acts on the arrays of a model: on all of them except biases, or on those named by `on`.
`Sum` puts different ones on different arrays.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fedloom.errors import ParameterError
from fedloom.layout import FREE, Layout, layout_of
from fedloom.operators import proximal
from fedloom.parameters import anything, at_least, at_least_zero, param, parametrised, positive
from fedloom.types import Array, Tree

_FEASIBLE = 1e-5  # how far outside a set, relative to its size, still counts as inside


def _on() -> Any:
    return param(anything, "names of the arrays it acts on; none: all but biases", default=None)


class Regulariser:
    """A convex g(x) with a cheap proximal map."""

    __parametrised__: ClassVar[bool] = True
    on: tuple[str, ...] | None  # names of arrays, or None

    def value_of(self, array: Array) -> Array:
        """The value of g on one array."""
        raise NotImplementedError

    def prox_of(self, array: Array, step: Array) -> Array:
        """The proximal map of step * g on one array."""
        raise NotImplementedError

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
        names = layout_of(lambda: model).names
        leaves = [
            leaf if self._acts_on(name) else jnp.zeros_like(leaf)
            for name, leaf in zip(names, jax.tree.leaves(slope), strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(model), leaves)

    def _acts_on(self, name: str) -> bool:
        return name not in FREE if self.on is None else name in self.on

    def _targets(self, model: Tree) -> list[Array]:
        names = layout_of(lambda: model).names
        return [a for n, a in zip(names, jax.tree.leaves(model), strict=True) if self._acts_on(n)]

    def _on_targets(self, change: Callable[[Array], Array], model: Tree) -> Tree:
        layout: Layout = layout_of(lambda: model)
        leaves = [
            change(leaf) if self._acts_on(name) else leaf
            for name, leaf in zip(layout.names, jax.tree.leaves(model), strict=True)
        ]
        return jax.tree.unflatten(layout.treedef, leaves)


@parametrised
class Zero(Regulariser):
    """No regulariser: g = 0."""

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
    on: tuple[str, ...] | None = _on()

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
    on: tuple[str, ...] | None = _on()

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
        return array.reshape(-1, array.shape[-1] if self.block is None else self.block)


@parametrised
class ElasticNet(Regulariser):
    """g(x) = l1 |x|_1 + (l2 / 2) |x|^2."""

    l1: float = param(at_least_zero, "weight of the l1 norm")
    l2: float = param(at_least_zero, "weight of the squared norm")
    on: tuple[str, ...] | None = _on()

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
    on: tuple[str, ...] | None = _on()

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
        left, values, right = jnp.linalg.svd(array, full_matrices=False)
        return self.strength * (left * (values > 0)) @ right

    def _check(self, array: Array) -> None:
        if array.ndim < 2:
            raise ParameterError(
                f"NuclearNorm is for models that are matrices; this one is an array of shape "
                f"{array.shape}. Take Multinomial or a network, name the matrices with on=..., or "
                f"use L1."
            )


class _Constraint(Regulariser):
    """The indicator of a convex set: zero inside, infinite outside."""

    def project(self, array: Array) -> Array:
        """The Euclidean projection onto the set."""
        raise NotImplementedError

    def value_of(self, array: Array) -> Array:
        """Zero inside the set, to rounding; infinite outside."""
        distance = jnp.abs(array - self.project(array)).max(initial=0.0)
        return jnp.where(distance <= _FEASIBLE * (1 + jnp.abs(array).max(initial=0.0)), 0, jnp.inf)

    def prox_of(self, array: Array, step: Array) -> Array:
        """The projection, whatever the step."""
        return self.project(array)


@parametrised
class Box(_Constraint):
    """low <= x <= high, entry by entry."""

    low: float = param(anything, "smallest allowed value")
    high: float = param(anything, "largest allowed value")
    on: tuple[str, ...] | None = _on()

    def project(self, array: Array) -> Array:
        """Clipping."""
        return proximal.project_box(array, self.low, self.high)


@parametrised
class Ball(_Constraint):
    """|x|_2 <= radius."""

    radius: float = param(positive, "radius of the ball")
    on: tuple[str, ...] | None = _on()

    def project(self, array: Array) -> Array:
        """Scaling back onto the ball."""
        return proximal.project_ball(array, self.radius)


@parametrised
class Simplex(_Constraint):
    """x >= 0 and sum x = total."""

    total: float = param(positive, "what the entries sum to", default=1.0)
    on: tuple[str, ...] | None = _on()

    def project(self, array: Array) -> Array:
        """Projection onto the simplex."""
        return proximal.project_simplex(array, self.total)


@parametrised
class Sum(Regulariser):
    """Several regularisers, each on arrays of its own."""

    parts: tuple[Regulariser, ...] = param(anything, "the regularisers")

    def value(self, model: Tree) -> Array:
        """The sum of the parts."""
        return sum((part.value(model) for part in self.parts), start=jnp.zeros(()))

    def prox(self, model: Tree, step: Array) -> Tree:
        """The proximal maps of the parts; exact because they act on different arrays."""
        for part in self.parts:
            model = part.prox(model, step)
        return model

    def subgradient(self, model: Tree) -> Tree:
        """The sum of the parts' subgradients."""
        slopes = [part.subgradient(model) for part in self.parts]
        return jax.tree.map(lambda *leaves: sum(leaves), *slopes)


def is_constraint(regulariser: Regulariser) -> bool:
    """Whether g is the indicator of a set, the whole space included."""
    if isinstance(regulariser, Sum):
        return all(map(is_constraint, regulariser.parts))
    return isinstance(regulariser, Zero | _Constraint)
