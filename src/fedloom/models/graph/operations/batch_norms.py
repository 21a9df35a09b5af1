"""Batch norms: by statistics that are kept, or in training by those of the batch.

The kept mean m and variance v are arrays of the model. In training their slopes are

    m - mean of the batch,    v - variance of the batch (over the number less one)

so that a step of size lr moves them by lr of the way, as PyTorch's momentum does.
"""

import jax.numpy as jnp
from jax import lax

from fedloom.models.graph.operations.arithmetic import Table
from fedloom.models.graph.operations.layers import by_channel, scaled
from fedloom.models.graph.operations.training import Step
from fedloom.types import Array


def _batch_norm(
    step: Step | None,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Array]:
    """The first of PyTorch's three results."""
    if step is None or not step.local_norms:
        mean, variance = running_mean, jnp.maximum(running_var, 0)  # steps may go below 0
    else:
        mean, variance, number = _statistics(step, x)
        unbiased = variance * (number / jnp.maximum(number - 1, 1))
        unbiased = jnp.where(number > 1, unbiased, running_var)  # one number has no variance
        step.terms += [_apart(running_mean, mean), _apart(running_var, unbiased)]
    centred = x - jnp.asarray(by_channel(mean, x))
    y = centred * lax.rsqrt(jnp.asarray(by_channel(variance, x)) + eps)
    return (scaled(y, by_channel(weight, x), by_channel(bias, x)),)


def _statistics(step: Step, x: Array) -> tuple[Array, Array, Array]:
    """Mean and variance of each channel over the rows that count, and of how many numbers."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    number = step.total(jnp.asarray(x.size // x.shape[1], x.dtype))
    mean = step.total(x.sum(axes)) / number
    centred = x - jnp.asarray(by_channel(mean, x))
    return mean, step.total((centred * centred).sum(axes)) / number, number


def _apart(kept: Array, seen: Array) -> Array:
    difference = kept - lax.stop_gradient(seen)
    return 0.5 * (difference * difference).sum()


TRAINED: Table = {"aten._native_batch_norm_legit_no_training.default": _batch_norm}
