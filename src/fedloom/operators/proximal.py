"""Proximal maps on one array: prox_t h(v) = argmin_u  h(u) + |u - v|^2 / (2 t).

For the indicator of a set the map is the Euclidean projection, whatever the step.
"""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.lazy import public
from fedloom.types import Array, Scalar

__all__ = ["elastic_net", "group_soft_threshold", "project_ball", "project_box", "project_simplex"]
__all__ += ["singular_value_threshold", "soft_threshold"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


def soft_threshold(v: Array, t: Scalar) -> Array:
    """The proximal map of |u|_1: every entry moves towards zero by `t`.

    Args:
        v: The point.
        t: The step, which may be an array of one for each entry.
    """
    return jnp.sign(v) * jnp.maximum(jnp.abs(v) - t, 0)


def group_soft_threshold(v: Array, t: Scalar) -> Array:
    """The proximal map of the sum of the norms of rows: each row's norm is reduced by `t`.

    Args:
        v: The point; rows are along the last axis.
        t: The step.
    """
    norms = jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
    return v * jnp.maximum(1 - t / jnp.where(norms > 0, norms, 1), 0)


def elastic_net(v: Array, t: Scalar, l1: Scalar, l2: Scalar) -> Array:
    """The proximal map of l1 |u|_1 + (l2 / 2) |u|^2.

    Args:
        v: The point.
        t: The step.
        l1: Weight of the absolute values.
        l2: Weight of the squares.
    """
    return soft_threshold(v, t * l1) / (1 + t * l2)


def singular_value_threshold(v: Array, t: Scalar) -> Array:
    """The proximal map of the sum of a matrix's singular values: each is reduced by `t`.

    Args:
        v: The matrix.
        t: The step.
    """
    left, values, right = jnp.linalg.svd(v, full_matrices=False)
    return (left * jnp.maximum(values - t, 0)) @ right


def project_box(v: Array, low: Scalar, high: Scalar) -> Array:
    """Project onto {low <= u <= high}, entry by entry.

    Args:
        v: The point.
        low: The lower bounds, or one for all.
        high: The upper bounds, or one for all.
    """
    return jnp.clip(v, low, high)


def project_ball(v: Array, radius: Scalar) -> Array:
    """Project onto the ball {|u| <= radius} around zero.

    Args:
        v: The point.
        radius: Of the ball, in the Euclidean norm.
    """
    from optax.projections import projection_l2_ball

    return projection_l2_ball(v, radius)


def project_simplex(v: Array, total: Scalar = 1.0) -> Array:
    """Project onto the simplex {u >= 0, sum u = total}.

    Without a sort: u is what of v is above a threshold, and Newton's method climbs to that
    threshold in finitely many passes, of which a million entries rarely take more than ten.

    Args:
        v: The point; of a matrix all entries together.
        total: What the entries sum to.
    """
    v = jnp.asarray(v, jnp.result_type(v, float))  # whole numbers have no threshold between them
    total = jnp.asarray(total, v.dtype)
    below = v - jax.lax.stop_gradient(v.max())  # near 0 where u > 0, so that no digits are lost
    threshold, count = _simplex_threshold(*jax.lax.stop_gradient((below, total)))
    # One step more has the derivatives of the threshold, which the loop has not.
    step = (jnp.maximum(below - threshold, 0).sum() - total) / count
    return jnp.maximum(below - (threshold + step), 0)


@jax.jit  # called outside of a program, a loop would be compiled again each time
def _simplex_threshold(below: Array, total: Array) -> tuple[Array, Array]:
    """The t at which the parts above t of `below`, whose largest entry is 0, sum to `total`.

    Also returns how many entries are above it.

    That sum is convex and falls with t. At -total it is at least `total`, and a step of Newton's
    method leads to where it would be `total` if as many entries stayed above: never too far. The
    number of entries above can only fall, and once it stays, t is exact.
    """

    def above(t: Array) -> Array:
        # Apart from the sum below: as one loop over two results the two take six times as long.
        return (jax.lax.optimization_barrier(below) > t).sum(dtype=jnp.int32)

    def falling(state: tuple[Array, Array, Array]) -> Array:
        _, count, before = state
        return count < before

    def climb(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        t, count, _ = state
        t = t + (jnp.maximum(below - t, 0).sum() - total) / count
        return t, above(t), count

    first = (-total, above(-total), jnp.asarray(below.size + 1, jnp.int32))
    return jax.lax.while_loop(falling, climb, first)[:2]
