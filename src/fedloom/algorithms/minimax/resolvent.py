"""The local problem of the splitting methods, and when it is solved well enough.

    r(w, y) = f(w, y) + |w - x|^2 / (2 beta)  [ - |y - eta|^2 / (2 beta)  where the dual is shared ]

Its saddle is the zero of the operator T = (grad_w r, -grad_y r), which is strongly monotone with
modulus m = min(1/beta - weak convexity of f in w, strong concavity of r in y). Hence
|v - v*| <= |T(v)| / m, and

    |T(v)|^2 <= m^2 accuracy |v - v0|^2     implies     |v - v*|^2 <= accuracy |v - v0|^2,

the accuracy that FFMDR asks of a local solution, here in a form that can be computed. Started at
the solution the right side stays zero, so a |T(v)| at the level of rounding ends the search too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.minimax.point import PrimalDual, minus
from fedloom.oracles import SaddleOracle
from fedloom.types import Array, Scalar

State = TypeVar("State")  # of a solver
_ROUNDING = 64  # units of rounding that still count as zero


class Resolvent(NamedTuple):
    """The saddle function r of one client in one round."""

    f: SaddleOracle
    centre: PrimalDual  # x and eta
    pull: PrimalDual  # 1/beta on each block that is held to its centre, else 0

    def operator(self, v: PrimalDual, key: Array) -> PrimalDual:
        """T on a batch."""
        return self._with_pull(v, self.f.grads(*v, key))

    def full_operator(self, v: PrimalDual) -> PrimalDual:
        """T over all rows."""
        return self._with_pull(v, self.f.full_grads(*v))

    def row_operators(self, v: PrimalDual, places: Array) -> PrimalDual:
        """T of single rows, one after the other."""
        return self._with_pull(v, self.f.row_grads(*v, places))

    @property
    def convexity(self) -> Array:
        """The modulus in w."""
        return self.pull.x - self.f.problem.weak_convexity

    @property
    def concavity(self) -> Array:
        """The modulus in y."""
        return self.pull.y + self.f.problem.strong_concavity

    def solved(self, v: PrimalDual, start: PrimalDual, accuracy: Scalar) -> Array:
        """Whether v is close enough to the saddle, measured by the way from `start`."""
        slope = self.full_operator(v)
        modulus = jnp.maximum(jnp.minimum(self.convexity, self.concavity), 0)
        size = _square(slope)
        close = size <= modulus**2 * accuracy * _square(minus(v, start))
        # T is a difference of terms of this size, and cannot be smaller than their rounding.
        terms = jax.tree.map(
            lambda s, k, p, c: jnp.abs(s) + k * (jnp.abs(p) + jnp.abs(c)),
            slope, self.pull, v, self.centre,
        )  # fmt: skip
        floor = _ROUNDING * jnp.finfo(v.x.dtype).eps
        return close | (size <= floor**2 * (1 + _square(terms)))

    def _with_pull(self, v: PrimalDual, grads: tuple[Array, Array]) -> PrimalDual:
        pulled = PrimalDual(
            *(k * (p - c) for k, p, c in zip(self.pull, v, self.centre, strict=True))
        )
        return PrimalDual(grads[0] + pulled.x, pulled.y - grads[1])


class Solved(NamedTuple):
    """A local solution, and how many steps of the solver it took."""

    point: PrimalDual
    iterations: Array


def by_epochs(
    r: Resolvent,
    begin: Any,
    start: PrimalDual,
    key: Array,
    *,
    epoch: Callable[[Any, Array], Any],
    point: Callable[[Any], PrimalDual],
    most: int,
    accuracy: Scalar | None,
) -> Solved:
    """Passes over the rows until the test holds, and `most` of them at the most.

    The solver's own state begins at `begin`; `epoch(state, key)` is one pass of `f.batches` steps,
    `point(state)` where it stands. Without an accuracy all passes are made.
    """

    def unfinished(loop: tuple[State, Array]) -> Array:
        state, done = loop
        more = done < most
        return more if accuracy is None else more & ~r.solved(point(state), start, accuracy)

    def go_on(loop: tuple[State, Array]) -> tuple[State, Array]:
        state, done = loop
        return epoch(state, draws.nth(key, done)), done + 1

    state, done = jax.lax.while_loop(unfinished, go_on, (begin, jnp.zeros((), jnp.int32)))
    return Solved(point(state), done * jnp.asarray(r.f.batches, jnp.int32))


def _square(point: PrimalDual) -> Array:
    return point.x @ point.x + point.y @ point.y
