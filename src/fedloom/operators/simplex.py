"""Maps onto the probability simplex D = {u >= 0, sum u = 1}: projections and proximal maps.

The proximal maps are those of robust optimisation, where weights of clients are pulled towards a
prior q with strength c:

    quadratic   argmin_{u in D}  (c / 2) |u - q|^2  +  |u - a|^2 / 2
    kl          argmin_{u in D}  c KL(u || q)       +  |u - a|^2 / 2
"""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.lazy import public
from fedloom.operators.proximal import project_simplex
from fedloom.types import Array

__all__ = ["project_floored_simplex", "proximal_kl", "proximal_quadratic", "wright_omega"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


_OMEGA_STEPS = 8  # Newton's method doubles its digits with each; from the start below 6 suffice
_MOST_STEPS = 200


def project_floored_simplex(v: Array, floor: Array | float) -> Array:
    """Project onto {u >= floor, sum u = 1}.

    Args:
        v: The point, a vector.
        floor: The least value of an entry, below 1 / (number of entries).
    """
    room = 1 - v.shape[0] * floor
    return floor + room * project_simplex((v - floor) / room)


def proximal_quadratic(a: Array, strength: Array | float, prior: Array) -> Array:
    """The proximal map of (strength / 2) |u - prior|^2 on the simplex.

    Args:
        a: The point.
        strength: How strongly weights are pulled towards the prior, >= 0.
        prior: A point of the simplex.
    """
    return project_simplex((a + strength * prior) / (1 + strength))


def proximal_kl(a: Array, strength: Array | float, prior: Array) -> Array:
    """The proximal map of strength * KL(u || prior) on the simplex; every entry is positive.

    Where c is the strength, u_i solves  c log(u_i / q_i) + u_i = a_i - c - nu,  with the nu at
    which the entries sum to one. Their sum falls with nu and is convex in it, so that Newton's
    method from a nu at which it is too large climbs to the solution and never beyond.

    Args:
        a: The point.
        strength: How strongly weights are pulled towards the prior, > 0.
        prior: A point of the simplex with positive entries.
    """
    c = jnp.asarray(strength, a.dtype)
    level = a - c + c * jnp.log(prior)

    def entries(nu: Array) -> Array:
        return c * wright_omega((level - nu) / c - jnp.log(c))

    def step(nu: Array) -> Array:
        u = entries(nu)
        return nu + (u.sum() - 1) / (u / (c + u)).sum()

    def climbing(state: tuple[Array, Array, Array]) -> Array:
        nu, before, taken = state
        return (nu > before) & (taken < _MOST_STEPS)

    def climb(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        nu, _, taken = state
        return step(nu), nu, taken + 1

    start = jnp.max(level) - 1  # here the largest entry is one, and so the sum at least one
    first = (start, jnp.full_like(start, -jnp.inf), jnp.zeros((), jnp.int32))
    u = entries(jax.lax.while_loop(climbing, climb, first)[0])
    return u / u.sum()


def wright_omega(y: Array) -> Array:
    """The w > 0 with w + log w = y, which is Lambert's W(e^y) without the overflow of e^y."""
    # In s = log w the function e^s + s - y is convex, and both starts are to the right of its root.
    s = jnp.where(y > 1, jnp.log(jnp.maximum(y, 1)), y)
    for _ in range(_OMEGA_STEPS):
        w = jnp.exp(s)
        s = s - (w + s - y) / (w + 1)
    return jnp.exp(s)
