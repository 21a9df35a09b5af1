"""The optimum, computed centrally: what every method is measured against.

It solves exactly the problem that a run poses, min_w sum_i a_i f_i(w) + g(w) with the problem's own
weights of clients, in double precision and with full gradients. In a saddle problem the dual is
maximised out exactly, and the rest is the same. Small models are solved by a
proximal Newton method, which ends at rounding in a dozen steps; larger ones by accelerated proximal
gradients with restarts.

Whether it is the only solution is found out as well: where the smooth part is flat in some
direction, the solver starts once more from a point in that direction, and comes back if the
regulariser leaves it no other place.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.data.parties import Holders
from fedloom.errors import FedloomError
from fedloom.layout import FREE
from fedloom.measuring.objective_value import smooth_part
from fedloom.parameters import check, one_of
from fedloom.population import Federation, LabelParty, assemble
from fedloom.problems.base import Problem
from fedloom.rounds.compiling import reproducible
from fedloom.rounds.given import check_clients, check_problem, named
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Held, Tree

_Four = tuple[Array, Array, Array, Array]
_Six = tuple[Array, Array, Array, Array, Array, Array]
_NEWTON_LIMIT = 600  # dimension up to which a Hessian is formed
_FLAT = 1e-12  # share of the largest curvature below which there is none
_SAME = 1e-5  # relative distance up to which two solutions are one
_PLAN = Plan(None, None)


@dataclasses.dataclass(frozen=True)
class Reference:
    """A solution of the whole problem, computed centrally."""

    model: Tree  # the arrays of the model, as in `Result.model`
    vector: np.ndarray  # the same as one vector
    value: float  # the objective there
    residual: float  # |w - prox_g(w - grad)|, largest entry
    _comes_back: Callable[[], bool] = dataclasses.field(repr=False)

    @functools.cached_property
    def unique(self) -> bool:
        """Whether there is no other solution; a distance to one of several says little."""
        return self._comes_back()


@named
def reference(
    problem: Problem,
    clients: Holders,
    *,
    dual: str = "shared",
    tolerance: float = 1e-13,
    iterations: int = 100_000,
) -> Reference:
    """Solve a problem over the data of all clients centrally; its smooth part must be convex.

    Args:
        problem: What is optimised.
        clients: The clients and their data.
        dual: In a saddle problem, whether all clients share one dual ("shared") or each has its own
            ("separate"); must be as in the method that is measured, `method.dual`.
        tolerance: The residual of a proximal gradient step at which the solver stops, relative to
            1 + |w|.
        iterations: The largest number of gradient steps.

    Raises:
        FedloomError: The tolerance was not reached; the problem may have no solution.
    """
    check_problem("reference", problem)
    check_clients("reference", clients)
    check("reference", "dual", dual, one_of("shared", "separate"))
    with jax.enable_x64(True):
        federation = assemble(problem, clients, None, "float64")
        solve = functools.partial(
            _solve, federation, dual=dual, tolerance=tolerance, iterations=iterations
        )
        w, value, distance = solve(federation.fed.init_model(jax.random.key(0)))
        residual = float(distance)
        if not residual <= 100 * tolerance * (1 + float(jnp.abs(w).max())):
            raise FedloomError(
                f"the reference solution was not reached: the residual is {residual:.2g}, the "
                f"tolerance {tolerance:.2g}. Add l2 to the problem, or raise the tolerance."
            )
        arrays = jax.tree.map(np.asarray, federation.fed.layout.unravel(w))

    def comes_back() -> bool:
        with jax.enable_x64(True):
            flat = _flat_direction(federation, w, dual)
            return flat is None or _same(w, solve(w + flat)[0])

    return Reference(arrays, np.asarray(w), float(value), residual, comes_back)


def _flat_direction(federation: Federation, w: Array, dual: str) -> np.ndarray | None:
    """A direction in which the smooth part may not bend at w, as long as w; None: it bends in all.

    The l2 penalty bends it in all directions but those of the biases.
    """
    fed = federation.fed
    bends = np.repeat(
        [bool(fed.problem.l2 > 0) and name not in FREE for name in fed.layout.names],
        [math.prod(shape) for shape in fed.layout.shapes],
    )
    free = np.flatnonzero(~bends)
    direction = np.zeros(fed.layout.size)
    rng = np.random.default_rng(0)
    if len(free) > _NEWTON_LIMIT:  # too many to look for one
        direction[free] = rng.normal(size=len(free))
    elif len(free):
        curvatures, axes = np.linalg.eigh(_curvature(federation, w, free, dual=dual))
        flat = axes[:, curvatures <= _FLAT * max(curvatures[-1], _FLAT)]
        direction[free] = flat @ rng.normal(size=flat.shape[1])
    length = np.linalg.norm(direction)
    return direction * max(1.0, float(jnp.linalg.norm(w))) / length if length > 0 else None


@reproducible("dual")
def _curvature(federation: Federation, w: Array, free: Held, dual: str) -> Array:
    """The Hessian of the smooth part in some of the coordinates."""
    smooth = smooth_part(federation, _PLAN, dual)
    return jax.hessian(lambda part: smooth(w.at[free].set(part)))(w[free])


def _same(w: Array, other: Array) -> bool:
    return float(jnp.abs(w - other).max()) <= _SAME * (1 + float(jnp.abs(w).max()))


@reproducible("dual", "tolerance", "iterations")
def _solve(
    federation: Federation, start: Array, dual: str, tolerance: float, iterations: int
) -> tuple[Array, Array, Array]:
    """A solution, its objective and its residual."""
    fed = federation.fed
    whole = smooth_part(federation, _PLAN, dual)
    # A vertical loss may be a sum over rows; divided by their number it is of a common scale.
    rows = len(fed.labels) if isinstance(fed, LabelParty) and not fed.problem.mean else 1
    # Jitted by themselves, so that JAX reads them once, though they stand in several places.
    smooth = jax.jit(lambda w: whole(w) / rows)
    slope = jax.jit(jax.grad(smooth))
    prox = lambda v, step: fed.prox(v, step / rows)  # noqa: E731
    if fed.layout.size <= _NEWTON_LIMIT:
        w = _proximal_newton(slope, prox, start, tolerance)
    else:
        w = _fista(smooth, prox, start, tolerance, iterations)
    residual = jnp.abs(_step(slope, prox, w, jnp.ones(()))).max()
    return w, whole(w) + fed.regularisation(w), residual


def _step(slope: Callable, prox: Callable, w: Array, step: Array) -> Array:
    """How far a proximal gradient step goes; zero exactly at a solution."""
    return w - prox(w - step * slope(w), step)


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

    def body(state: _Six) -> _Six:
        w, v, t, step, _, taken = state
        new, step = search(v, 1.1 * step)
        uphill = (v - new) @ (new - w) > 0
        t_new = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * t * t)) / 2)
        momentum = jnp.where(uphill, 0.0, (t - 1) / t_new)
        moved = jnp.abs(v - new).max() / step
        return new, new + momentum * (new - w), t_new, step, moved, taken + 1

    def unfinished(state: _Six) -> Array:
        w, *_, moved, taken = state
        return (moved > tolerance * (1 + jnp.abs(w).max())) & (taken < iterations)

    one = jnp.ones(())
    first = (start, start, one, one, jnp.full((), jnp.inf), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, body, first)[0]


def _proximal_newton(slope: Callable, prox: Callable, start: Array, tolerance: float) -> Array:
    """Newton steps on the smooth part, with the regulariser kept whole in each quadratic model."""

    def body(state: _Four) -> _Four:
        w, before, _, taken = state
        grad, hessian = slope(w), jax.jacfwd(slope)(w)

        def model(u: Array) -> Array:
            return grad @ (u - w) + 0.5 * (u - w) @ hessian @ (u - w)

        target = _fista(model, prox, w, tolerance / 1000, 20_000)
        # Damped where the full step is too long, as a merit the residual of a proximal step.
        merit = lambda u: jnp.abs(_step(slope, prox, u, jnp.ones(()))).max()  # noqa: E731
        steps = w + jnp.exp2(-jnp.arange(6.0))[:, None] * (target - w)
        merits = jax.lax.map(merit, steps)
        best = jnp.argmin(merits)
        better = merits[best] < before
        return jnp.where(better, steps[best], w), merits[best], before, taken + 1

    def unfinished(state: _Four) -> Array:
        # A residual of rounding may still hide an error of residual / curvature in w, so Newton
        # goes on as long as it gains.
        w, residual, before, taken = state
        rough = residual > tolerance * (1 + jnp.abs(w).max())
        return (rough | (residual < before / 2)) & (taken < 60)

    infinite = jnp.full((), jnp.inf)
    first = (start, infinite, infinite, jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, body, first)[0]
