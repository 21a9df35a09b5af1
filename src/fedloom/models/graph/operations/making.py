"""Operations that make arrays from nothing but numbers: zeros, ranges, masks."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fedloom.models.graph.operations.arithmetic import Table
from fedloom.types import Array


def _full(size: Sequence[int], fill_value: float, dtype: Any = None) -> Array:
    return jnp.full(tuple(size), fill_value, dtype)


def _zeros(size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.zeros(tuple(size), dtype)


def _ones(size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.ones(tuple(size), dtype)


def _full_like(x: Array, fill_value: float, dtype: Any = None) -> Array:
    return jnp.full(x.shape, fill_value, dtype or x.dtype)


def _zeros_like(x: Array, dtype: Any = None) -> Array:
    return jnp.zeros(x.shape, dtype or x.dtype)


def _ones_like(x: Array, dtype: Any = None) -> Array:
    return jnp.ones(x.shape, dtype or x.dtype)


def _new_full(x: Array, size: Sequence[int], fill_value: float, dtype: Any = None) -> Array:
    return jnp.full(tuple(size), fill_value, dtype or x.dtype)


def _new_zeros(x: Array, size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.zeros(tuple(size), dtype or x.dtype)


def _new_ones(x: Array, size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.ones(tuple(size), dtype or x.dtype)


def _scalar(value: float, dtype: Any = None) -> Array:
    return jnp.asarray(value, dtype)


def _arange(end: float, dtype: Any = None) -> Array:
    return jnp.arange(end, dtype=dtype)


def _arange_from(start: float, end: float, step: float = 1, dtype: Any = None) -> Array:
    return jnp.arange(start, end, step, dtype)


def _eye(n: int, m: int | None = None, dtype: Any = None) -> Array:
    return jnp.eye(n, m, dtype=dtype)


TABLE: Table = {
    "aten.full.default": _full,
    **dict.fromkeys(("aten.zeros.default", "aten.empty.memory_format"), _zeros),
    "aten.ones.default": _ones,
    "aten.full_like.default": _full_like,
    **dict.fromkeys(("aten.zeros_like.default", "aten.empty_like.default"), _zeros_like),
    "aten.ones_like.default": _ones_like,
    "aten.new_full.default": _new_full,
    # What is never filled otherwise is read by nobody, or is a mask to be drawn.
    **dict.fromkeys(("aten.new_zeros.default", "aten.new_empty.default"), _new_zeros),
    "aten.new_ones.default": _new_ones,
    "aten.scalar_tensor.default": _scalar,
    "aten.arange.default": _arange,
    **dict.fromkeys(("aten.arange.start", "aten.arange.start_step"), _arange_from),
    **dict.fromkeys(("aten.eye.default", "aten.eye.m"), _eye),
}
