"""The optimum, computed centrally: what every method is measured against.

It solves exactly the problem that a run poses, min_w sum_i a_i f_i(w) + g(w) with the problem's own
weights of clients, in double precision and with full gradients. Small models are solved by a
proximal Newton method, which ends at rounding in a dozen steps; larger ones by accelerated proximal
gradients with restarts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.data.parties import Holders
from fedloom.engines import joint
from fedloom.engines.mapping import Plan, map_group
from fedloom.errors import FedloomError
from fedloom.federation import Federation, assemble
from fedloom.problems.base import Problem
from fedloom.problems.vertical import Vertical

Array = Any
Tree = Any
_NEWTON_LIMIT = 600  # dimension up to which a Hessian is formed
_PLAN = Plan(None, None)


class Reference(NamedTuple):
    """A solution of the whole problem."""

    model: Tree  # arrays in the structure that the problem gives them
    vector: np.ndarray
    value: float  # of the objective
    residual: float  # |w - prox_g(w - grad)|, largest entry


def reference(
    problem: Problem, clients: Holders, *, tolerance: float = 1e-13, iterations: int = 100_000
) -> Reference:
    """Solve a problem over all clients centrally, for a convex smooth part.

    Args:
        problem: What is optimised.
        clients: Who holds what.
        tolerance: At which the proximal-gradient residual counts as zero, relative to 1 + |w|.
        iterations: How many gradient steps at the most.

    Raises:
        FedloomError: The tolerance was not reached; the problem may have no solution.
    """
    with jax.enable_x64(True):
        federation: Any = assemble(problem, clients, None, "float64")
        # A vertical loss may be a sum over rows; divided by their number it is of a common scale.
        summed = isinstance(problem, Vertical) and not problem.mean
        rows = len(federation.fed.labels) if summed else 1
        whole = _smooth(federation)
        smooth = lambda w: whole(w) / rows  # noqa: E731
        prox = lambda v, step: federation.fed.prox(v, step / rows)  # noqa: E731
        start = federation.fed.init_model(jax.random.key(0))
        if federation.fed.layout.size <= _NEWTON_LIMIT:
            w = jax.jit(lambda w: _proximal_newton(smooth, prox, w, tolerance))(start)
        else:
            solve = lambda w: _fista(smooth, prox, w, tolerance, iterations)  # noqa: E731
            w = jax.jit(solve)(start)
        residual = float(jnp.abs(_step(smooth, prox, w, jnp.ones(()))).max())
        if not residual <= 100 * tolerance * (1 + float(jnp.abs(w).max())):
            raise FedloomError(
                f"the reference solution was not reached: the residual is {residual:.2g}, the "
                f"tolerance {tolerance:.2g}. Add l2 to the problem, or raise the tolerance."
            )
        value = float(whole(w) + federation.fed.regularisation(w))
        arrays = jax.tree.map(np.asarray, federation.fed.layout.unravel(w))
        return Reference(arrays, np.asarray(w), value, residual)


def _smooth(federation: Federation) -> Callable[[Array], Array]:
    """The function sum_i a_i f_i; of a vertical problem, all but the regulariser."""
    fed = federation.fed
    if fed.problem.kind == "vertical":
        return lambda w: joint.smooth(federation, w)

    def value(w: Array) -> Array:
        total = jnp.zeros(())
        for group in federation.groups:
            work = lambda f, _: f.full_value(w)  # noqa: E731
            values = map_group(group, work, _PLAN, jnp.arange(group.size))
            members = slice(None) if group.members is None else np.array(group.members)
            total = total + jnp.asarray(federation.fed.weights)[members] @ values
        return total

    return value


def _step(smooth: Callable, prox: Callable, w: Array, step: Array) -> Array:
    """How far a proximal gradient step goes; zero exactly at a solution."""
    return w - prox(w - step * jax.grad(smooth)(w), step)


def _fista(
    smooth: Callable, prox: Callable, start: Array, tolerance: float, iterations: int
) -> Array:
    """Accelerated proximal gradients; momentum restarts where it points uphill, steps are searched.

    Beck and Teboulle 2009, with the restart of O'Donoghue and Candes 2015.
    """

    def search(v: Array, step: Array) -> tuple[Array, Array]:
        value, grad = jax.value_and_grad(smooth)(v)

        def too_long(state: tuple[Array, Array]) -> Array:
            w, step = state
            change = w - v
            bound = value + grad @ change + change @ change / (2 * step)
            return smooth(w) > bound + 1e-15 * jnp.abs(value)

        def halve(state: tuple[Array, Array]) -> tuple[Array, Array]:
            step = state[1] / 2
            return prox(v - step * grad, step), step

        return jax.lax.while_loop(too_long, halve, (prox(v - step * grad, step), step))

    def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
        w, v, t, step, _, taken = state
        new, step = search(v, 1.1 * step)
        uphill = (v - new) @ (new - w) > 0
        t_new = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * t * t)) / 2)
        momentum = jnp.where(uphill, 0.0, (t - 1) / t_new)
        moved = jnp.abs(v - new).max() / step
        return new, new + momentum * (new - w), t_new, step, moved, taken + 1

    def unfinished(state: tuple[Array, ...]) -> Array:
        w, *_, moved, taken = state
        return (moved > tolerance * (1 + jnp.abs(w).max())) & (taken < iterations)

    one = jnp.ones(())
    first = (start, start, one, one, jnp.full((), jnp.inf), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, body, first)[0]


def _proximal_newton(smooth: Callable, prox: Callable, start: Array, tolerance: float) -> Array:
    """Newton steps on the smooth part, with the regulariser kept whole in each quadratic model."""

    def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
        w, before, _, taken = state
        grad, hessian = jax.grad(smooth)(w), jax.hessian(smooth)(w)

        def model(u: Array) -> Array:
            return grad @ (u - w) + 0.5 * (u - w) @ hessian @ (u - w)

        target = _fista(model, prox, w, tolerance / 1000, 20_000)
        # Damped where the full step is too long, as a merit the residual of a proximal step.
        merit = lambda u: jnp.abs(_step(smooth, prox, u, jnp.ones(()))).max()  # noqa: E731
        steps = w + jnp.exp2(-jnp.arange(6.0))[:, None] * (target - w)
        merits = jax.lax.map(merit, steps)
        best = jnp.argmin(merits)
        better = merits[best] < before
        return jnp.where(better, steps[best], w), merits[best], before, taken + 1

    def unfinished(state: tuple[Array, ...]) -> Array:
        # A residual of rounding may still hide an error of residual / curvature in w, so Newton
        # goes on as long as it gains.
        w, residual, before, taken = state
        rough = residual > tolerance * (1 + jnp.abs(w).max())
        return (rough | (residual < before / 2)) & (taken < 60)

    infinite = jnp.full((), jnp.inf)
    first = (start, infinite, infinite, jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, body, first)[0]
