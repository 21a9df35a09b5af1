"""Constraints: regularisers that are zero in a convex set and infinite outside of it.

Their proximal map is the projection onto the set, array by array.
"""

import math

import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.operators import proximal
from fedloom.parameters import Rule, param, parametrised, positive
from fedloom.problems.regularisers import Regulariser, Sum, Zero, on_param
from fedloom.types import Array

_FEASIBLE = 1e-5  # how far outside a set, relative to its size, still counts as inside

_bound = Rule(
    lambda v: isinstance(v, int | float) and not isinstance(v, bool) and not math.isnan(v),
    "a number, or an infinity for no bound",
    0.0,
    {"type": "number"},
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

    low: float = param(_bound, "smallest allowed value")
    high: float = param(_bound, "largest allowed value")
    on: tuple[str, ...] | None = on_param()

    def __post_init__(self) -> None:
        # Traced bounds have no values to compare; those of a sweep were compared before.
        known = all(isinstance(bound, float | np.generic) for bound in (self.low, self.high))
        if known and self.low > self.high:
            raise ParameterError(
                f"Box: high must be at least low = {self.low!r}; got {self.high!r}. Exchange them."
            )

    def project(self, array: Array) -> Array:
        """Clipping."""
        return proximal.project_box(array, self.low, self.high)


@parametrised
class Ball(_Constraint):
    """|x|_2 <= radius."""

    radius: float = param(positive, "radius of the ball")
    on: tuple[str, ...] | None = on_param()

    def project(self, array: Array) -> Array:
        """Scaling back onto the ball."""
        return proximal.project_ball(array, self.radius)


@parametrised
class Simplex(_Constraint):
    """x >= 0 and sum x = total."""

    total: float = param(positive, "what the entries sum to", default=1.0)
    on: tuple[str, ...] | None = on_param()

    def project(self, array: Array) -> Array:
        """Projection onto the simplex."""
        return proximal.project_simplex(array, self.total)


def is_constraint(regulariser: Regulariser) -> bool:
    """Whether g is the indicator of a set, the whole space included."""
    if isinstance(regulariser, Sum):
        return all(map(is_constraint, regulariser.parts))
    return isinstance(regulariser, Zero | _Constraint)
