"""Attention, as one operation."""

import math

import jax
import jax.numpy as jnp

from fedloom.models.graph.operations.arithmetic import Table
from fedloom.models.graph.operations.training import Step, thinned
from fedloom.types import Array


def _attention(
    step: Step | None,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """softmax(scale Q K^T) V, over the places that the mask allows."""
    if enable_gqa:  # several heads of the query share one of the key
        times = query.shape[-3] // key.shape[-3]
        key, value = jnp.repeat(key, times, -3), jnp.repeat(value, times, -3)
    scores = query @ jnp.swapaxes(key, -1, -2)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        allowed = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(allowed, scores, -jnp.inf)
    if attn_mask is not None and attn_mask.dtype == bool:
        scores = jnp.where(attn_mask, scores, -jnp.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    if not is_causal and attn_mask is None:
        return thinned(step, jax.nn.softmax(scores, -1), dropout_p) @ value
    # A place that may look nowhere gets zeros, as in PyTorch, and not NaN.
    nowhere = jnp.isneginf(scores).all(-1, keepdims=True)
    weights = jax.nn.softmax(jnp.where(nowhere, 0, scores), -1)
    return thinned(step, jnp.where(nowhere, 0, weights), dropout_p) @ value


TRAINED: Table = {"aten.scaled_dot_product_attention.default": _attention}
