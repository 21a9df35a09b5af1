"""The objective as a function of the model alone: its smooth part, and with the regulariser.

For a loss without a dual the smooth part is sum_i a_i f_i(w). In a saddle problem the dual is
maximised out, over all clients together where it is shared and at each client where it is separate:

    shared      max_y sum_i a_i f_i(w, y)            separate    sum_i a_i max_y f_i(w, y)

The maximum is found by Newton's method, which takes one step where f is quadratic in y. Only the
last step is differentiated: it starts where the slope in y vanishes, so gradient and Hessian in w
are those of the maximum.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.measuring import party_scores
from fedloom.population import Federation
from fedloom.problems.vertical import Vertical
from fedloom.rounds.parts import Plan, map_group
from fedloom.types import Array

_NEWTON_STEPS = 30


def smooth_part(federation: Federation, plan: Plan, dual: str) -> Callable[[Array], Array]:
    """The function of the model's vector that a method minimises, apart from g."""
    fed = federation.fed

    def total(work: Callable[[Any], Array]) -> Array:
        """The weighted sum of a number of each client."""
        result = jnp.zeros(())
        for group in federation.groups:
            values = map_group(group, lambda _, f, i: work(f), plan, (), np.arange(group.size))
            members = slice(None) if group.members is None else np.array(group.members)
            result = result + jnp.asarray(fed.weights)[members] @ values
        return result

    def plain(w: Array) -> Array:
        return total(lambda f: f.full_value(w))

    def shared(w: Array) -> Array:
        return maximum(lambda w, y: total(lambda f: f.full_value(w, y)), w, start)

    def separate(w: Array) -> Array:
        return total(lambda f: maximum(f.full_value, w, start))

    if isinstance(fed.problem, Vertical):
        return lambda w: party_scores.smooth(federation, w)
    if fed.layout.dual is None:
        return plain
    start = fed.init_dual(jax.random.key(0))
    return shared if dual == "shared" else separate


def objective(federation: Federation, model: Array, plan: Plan, dual: str) -> Array:
    """The smooth part and g(w) on the training rows; in a saddle problem, at the best dual."""
    smooth = smooth_part(federation, plan, dual)
    return smooth(model) + federation.fed.regularisation(model)


def maximum(value: Callable[[Array, Array], Array], w: Array, start: Array) -> Array:
    """The maximum of value(w, y) over y, for a function that is strongly concave in y."""

    @jax.jit  # JAX then reads it once, for the three places in which it stands
    def newton(w: Array, y: Array) -> Array:
        slope, curvature = jax.grad(value, 1)(w, y), jax.hessian(value, 1)(w, y)
        return y - jnp.linalg.solve(curvature, slope)

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        y, before, taken = state
        moved = jnp.abs(y - before).max()
        rounding = 16 * jnp.finfo(y.dtype).eps * (1 + jnp.abs(y).max())
        return (moved > rounding) & (taken < _NEWTON_STEPS)

    def improve(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, _, taken = state
        return newton(fixed, y), y, taken + 1

    fixed = jax.lax.stop_gradient(w)
    first = (newton(fixed, start), start, jnp.ones((), int))
    best = jax.lax.stop_gradient(jax.lax.while_loop(unfinished, improve, first)[0])
    return value(w, newton(w, best))
