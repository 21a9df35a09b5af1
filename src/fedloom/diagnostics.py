"""How a run converges: the potential that FFMDR decreases, and the rate of a sequence.

`potential` is the function H of FFMDR's paper, eq. (11). With x_i, w_i, y_i the centres, points and
duals of the clients, z the model, F_i(w) = max_y f_i(w, y) and a prime for the round before:

    H = sum_i a_i F_i(w_i) + g(z)
      + sum_i a_i { (|x_i - w_i|^2 - |x_i - z|^2) / (2 beta) + |w_i - z|^2 / beta
                    + delta |w_i - w_i'|^2 / beta + |(y_i, w_i) - (y_i', w_i')|^2 / (12 L^2) }

Along a deterministic run with everyone present it decreases in every round, as long as beta L <
(sqrt(85) - 9) / 4. The paper prints norms without the weights a_i, which goes with its beta / n in
the hub's proximal map; with beta there, the norm of the product space carries the weights.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from fedloom.errors import ParameterError
from fedloom.measuring.objective_value import maximum
from fedloom.population import Federation
from fedloom.simulator.trajectory import Trajectory
from fedloom.types import Array

_ROUNDING = 1e-13  # distances below, relative to the largest point, count as zero
_JUMP = 1e-6  # who falls to rounding from above this, does so in finitely many steps
_FEWEST = 6  # distances that a fit needs


def potential(
    run: Trajectory, *, beta: float, smoothness: float, delta: float = 0.125
) -> np.ndarray:
    """H of each round of an FFMDR run, from the first on.

    Args:
        run: From `trajectory`, with full gradients and everyone present.
        beta: The method's.
        smoothness: L, a Lipschitz constant of the gradients of all F_i.
        delta: The weight of the last moves; 1/8 as in the paper's remark.
    """
    if len(run.clients) != 1 or not hasattr(run.clients[0], "centre"):
        raise ParameterError(
            "potential needs the run of a method with centres, points and duals at its clients. "
            "Pass a trajectory of FFMDR."
        )
    with jax.enable_x64(True):
        fed, states = run.federation.fed, run.clients[0]
        values = _best_values(run.federation, states.point)
        g = jax.vmap(fed.regularisation)(jnp.asarray(run.models))
    x, w, y, z = states.centre, states.point, states.dual, run.models[:, None]
    moved = _square(w[1:] - w[:-1])
    terms = (
        np.asarray(values)[1:]
        + (_square(x - w) - _square(x - z))[1:] / (2 * beta)
        + _square(w - z)[1:] / beta
        + delta * moved / beta
        + (moved + _square(y[1:] - y[:-1])) / (12 * smoothness**2)
    )
    return terms @ np.asarray(fed.weights, float) + np.asarray(g)[1:]


@jax.jit
def _best_values(federation: Federation, points: Array) -> Array:
    """F_i(w_i), by round and client."""
    fed = federation.fed
    group = federation.groups[0]
    start = fed.init_dual(jax.random.key(0))

    def own(index: Array, w: Array) -> Array:
        return maximum(group.objective(index).full_value, w, start)

    return jax.vmap(jax.vmap(own), (None, 0))(jnp.arange(group.size), points)


class Regime(NamedTuple):
    """How |z^t - z^last| falls."""

    kind: str  # "finite", "linear" or "sublinear"
    rate: float | None  # the factor of a round, where linear
    exponent: float | None  # e in t^-e, where sublinear
    error: float  # root mean square of the fit's error in log |z^t - z^last|


def regime(points: np.ndarray) -> Regime:
    """Fit the convergence of a sequence of vectors, one a row, to its last one.

    Both laws are fitted as distances to the last point, rho^t - rho^T and t^-e - T^-e, over the
    later two thirds of the rounds that are above rounding; the better fit is returned.
    """
    points = np.asarray(points, float)
    distances = np.linalg.norm(points - points[-1], axis=1)
    floor = _ROUNDING * max(np.abs(points).max(initial=0), np.finfo(float).tiny)
    end = len(points) - 1
    above = np.flatnonzero(distances > floor)
    if not len(above) or (above[-1] < end - 1 and distances[above[-1]] > _JUMP * distances.max()):
        return Regime("finite", None, None, 0.0)
    rounds = np.arange(max(1, above[-1] // 3), above[-1] + 1)
    rounds = rounds[distances[rounds] > floor]
    if len(rounds) < _FEWEST:
        raise ParameterError(
            f"regime needs at least {_FEWEST} rounds above rounding to fit; got {len(rounds)}. "
            f"Pass a longer run."
        )
    logs = np.log(distances[rounds])

    def linear(speed: float) -> np.ndarray:
        return -speed * rounds + np.log1p(-np.exp(-speed * (end - rounds)))

    def sublinear(exponent: float) -> np.ndarray:
        return -exponent * np.log(rounds) + np.log1p(-((rounds / end) ** exponent))

    speed, linear_error = _fit(linear, logs, (1e-7, 40.0))
    exponent, sublinear_error = _fit(sublinear, logs, (1e-3, 40.0))
    if linear_error <= sublinear_error:
        return Regime("linear", float(np.exp(-speed)), None, linear_error)
    return Regime("sublinear", None, exponent, sublinear_error)


def _fit(law: Any, logs: np.ndarray, bounds: tuple[float, float]) -> tuple[float, float]:
    """The parameter of a law with a free factor that is closest in logarithms, and its error."""

    def error(log_parameter: float) -> float:
        return float(np.std(logs - law(np.exp(log_parameter))))

    found = minimize_scalar(error, bounds=tuple(np.log(bounds)), method="bounded")
    return float(np.exp(found.x)), float(found.fun)


def _square(difference: np.ndarray) -> np.ndarray:
    return np.sum(difference * difference, axis=-1)
