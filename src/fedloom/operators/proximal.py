"""Proximal maps on one array: prox_t h(v) = argmin_u  h(u) + |u - v|^2 / (2 t).

For the indicator of a set the map is the Euclidean projection, whatever the step.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import optax

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
    return optax.projections.projection_l2_ball(v, radius)


def project_simplex(v: Array, total: Scalar = 1.0) -> Array:
    """Project onto the simplex {u >= 0, sum u = total}.

    Args:
        v: The point; of a matrix all entries together.
        total: What the entries sum to.
    """
    return optax.projections.projection_simplex(v.reshape(-1), total).reshape(v.shape)
