"""Solvers of the local saddle problem: stochastic descent ascent, and an exact one.

SAGA, which converges linearly on batches, has a file of its own.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fedloom.algorithms.minimax.point import PrimalDual, plus
from fedloom.algorithms.minimax.resolvent import Resolvent, Solved, by_epochs
from fedloom.local import repeat
from fedloom.parameters import at_least, param, parametrised, positive
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class Solver:
    """Base of the local solvers."""

    __parametrised__: ClassVar[bool] = True

    def solve(self, r: Resolvent, start: PrimalDual, key: Array) -> Solved:
        """A point near the saddle of r, found from `start`."""
        raise NotImplementedError


def epochs_param() -> Any:
    """The field for the cap on passes over the rows."""
    return param(at_least(1), "passes over the client's rows, at most", default=5)


def accuracy_param() -> Any:
    """The field for the termination test."""
    return param(
        positive.or_none("all passes, without a test"),
        "squared error, relative to the squared way from the start, at which the solver ends",
        default=None,
    )


@parametrised
class SGDA(Solver):
    """Stochastic gradient descent ascent, both blocks at once.

    Stable for lr up to about m / (L + 1/beta)^2. With batches and a constant step it ends in a
    neighbourhood of the saddle.
    """

    lr: StepSize = param(step_size, "step size in both blocks")
    epochs: int = epochs_param()
    accuracy: float | None = accuracy_param()

    def solve(self, r: Resolvent, start: PrimalDual, key: Array) -> Solved:
        """A pass is as many steps as there are batches."""

        def step(v: PrimalDual, key: Array) -> PrimalDual:
            return plus(v, r.operator(v, key), -self.lr)

        return by_epochs(
            r, start, start, key,
            epoch=lambda v, key: repeat(step, v, key, r.f.batches),
            point=lambda v: v, most=self.epochs, accuracy=self.accuracy,
        )  # fmt: skip


@parametrised
class Exact(Solver):
    """Newton steps on T(v) = 0 with full gradients: one is exact where f is quadratic.

    A step forms the Jacobian of T, so it is for small models.
    """

    newton_steps: int = param(at_least(1), "Newton steps; 1 for a quadratic", default=1)

    def solve(self, r: Resolvent, start: PrimalDual, key: Array) -> Solved:
        """The saddle, by linear algebra."""
        size = start.x.size

        def operator(v: Array) -> Array:
            return jnp.concatenate(r.full_operator(PrimalDual(v[:size], v[size:])))

        def newton(v: Array, key: Array) -> Array:
            return v - jnp.linalg.solve(jax.jacfwd(operator)(v), operator(v))

        v = repeat(newton, jnp.concatenate(start), key, self.newton_steps)
        return Solved(PrimalDual(v[:size], v[size:]), jnp.asarray(self.newton_steps, jnp.int32))
