"""Proximal maps on one array: prox_t h(v) = argmin_u  h(u) + |u - v|^2 / (2 t).

For the indicator of a set the map is the Euclidean projection, whatever the step.
"""

import jax.numpy as jnp
import optax

from fedloom.types import Array, Scalar


def soft_threshold(v: Array, t: Scalar) -> Array:
    """H = |u|_1: every entry moves towards zero by `t`."""
    return jnp.sign(v) * jnp.maximum(jnp.abs(v) - t, 0)


def group_soft_threshold(v: Array, t: Scalar) -> Array:
    """H = the sum of the norms of the rows: every row shrinks towards zero by `t`."""
    norms = jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
    return v * jnp.maximum(1 - t / jnp.where(norms > 0, norms, 1), 0)


def elastic_net(v: Array, t: Scalar, l1: Scalar, l2: Scalar) -> Array:
    """H = l1 |u|_1 + (l2 / 2) |u|^2."""
    return soft_threshold(v, t * l1) / (1 + t * l2)


def singular_value_threshold(v: Array, t: Scalar) -> Array:
    """H = the sum of the singular values of a matrix: each moves towards zero by `t`."""
    left, values, right = jnp.linalg.svd(v, full_matrices=False)
    return (left * jnp.maximum(values - t, 0)) @ right


def project_box(v: Array, low: Scalar, high: Scalar) -> Array:
    """Onto {low <= u <= high}."""
    return jnp.clip(v, low, high)


def project_ball(v: Array, radius: Scalar) -> Array:
    """Onto {|u| <= radius}."""
    return optax.projections.projection_l2_ball(v, radius)


def project_simplex(v: Array, total: Scalar = 1.0) -> Array:
    """Onto {u >= 0, sum u = total}."""
    return optax.projections.projection_simplex(v.reshape(-1), total).reshape(v.shape)
