"""Operations that take many numbers to one, or weigh them against each other."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models.graph.operations.arithmetic import Table
from fedloom.types import Array

Axes = Sequence[int] | int | None


def _axes(dim: Axes) -> tuple[int, ...] | None:
    """The axes of a reduction; none are all."""
    if dim is None or dim == [] or dim == ():
        return None
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _typed(x: Array, dtype: Any) -> Array:
    return x if dtype is None else x.astype(dtype)


def _mean(x: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return jnp.mean(_typed(x, dtype), _axes(dim), keepdims=keepdim)


def _mean_all(x: Array, dtype: Any = None) -> Array:
    return jnp.mean(_typed(x, dtype))


def _sum(x: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return jnp.sum(_typed(x, dtype), _axes(dim), keepdims=keepdim)


def _sum_all(x: Array, dtype: Any = None) -> Array:
    return jnp.sum(_typed(x, dtype))


def _var(x: Array, dim: Axes = None, correction: float | None = 1, keepdim: bool = False) -> Array:
    taken = 1 if correction is None else int(correction)
    return jnp.var(x, _axes(dim), ddof=taken, keepdims=keepdim)


def _std(x: Array, dim: Axes = None, correction: float | None = 1, keepdim: bool = False) -> Array:
    return jnp.sqrt(_var(x, dim, correction, keepdim))


def _var_dim(x: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Array:
    return _var(x, dim, int(unbiased), keepdim)


def _std_dim(x: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Array:
    return _std(x, dim, int(unbiased), keepdim)


def _var_mean(
    x: Array, dim: Axes = None, correction: float | None = 1, keepdim: bool = False
) -> tuple[Array, Array]:
    return _var(x, dim, correction, keepdim), _mean(x, dim, keepdim)


def _amax(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.max(x, _axes(dim), keepdims=keepdim)


def _amin(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.min(x, _axes(dim), keepdims=keepdim)


def _argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return jnp.argmax(x, dim, keepdims=keepdim)


def _argmin(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return jnp.argmin(x, dim, keepdims=keepdim)


def _max_dim(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The largest and where it stands; the slope goes there and nowhere else."""
    return _at(x, jnp.argmax(x, dim, keepdims=True), dim, keepdim)


def _min_dim(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _at(x, jnp.argmin(x, dim, keepdims=True), dim, keepdim)


def _at(x: Array, place: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    value = jnp.take_along_axis(x, place, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def _prod(x: Array, dim: int, keepdim: bool = False, dtype: Any = None) -> Array:
    return jnp.prod(_typed(x, dtype), dim, keepdims=keepdim)


def _any(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.any(x, _axes(dim), keepdims=keepdim)


def _all(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.all(x, _axes(dim), keepdims=keepdim)


def _cumsum(x: Array, dim: int, dtype: Any = None) -> Array:
    return jnp.cumsum(_typed(x, dtype), dim)


def _norm(
    x: Array, order: float = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None
) -> Array:
    if order != 2:
        raise DataError(f"a norm must be of order 2; got {order}.")
    squares = jnp.sum(_typed(x, dtype) ** 2, _axes(dim), keepdims=keepdim)
    # At zero PyTorch's slope is 0, where that of a root would be infinite.
    return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


def _softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    return jax.nn.softmax(_typed(x, dtype), dim)


def _log_softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    return jax.nn.log_softmax(_typed(x, dtype), dim)


def _softmax_half(x: Array, dim: int, half_to_float: bool) -> Array:
    return jax.nn.softmax(x, dim)


def _log_softmax_half(x: Array, dim: int, half_to_float: bool) -> Array:
    return jax.nn.log_softmax(x, dim)


def _logsumexp(x: Array, dim: Axes, keepdim: bool = False) -> Array:
    return jax.nn.logsumexp(x, _axes(dim), keepdims=keepdim)


TABLE: Table = {
    "aten.mean.default": _mean_all,
    "aten.mean.dim": _mean,
    "aten.sum.default": _sum_all,
    "aten.sum.dim_IntList": _sum,
    "aten.var.correction": _var,
    "aten.std.correction": _std,
    "aten.var.dim": _var_dim,
    "aten.std.dim": _std_dim,
    "aten.var_mean.correction": _var_mean,
    **dict.fromkeys(("aten.amax.default", "aten.max.default"), _amax),
    **dict.fromkeys(("aten.amin.default", "aten.min.default"), _amin),
    "aten.argmax.default": _argmax,
    "aten.argmin.default": _argmin,
    "aten.max.dim": _max_dim,
    "aten.min.dim": _min_dim,
    "aten.prod.dim_int": _prod,
    **dict.fromkeys(("aten.any.default", "aten.any.dim", "aten.any.dims"), _any),
    **dict.fromkeys(("aten.all.default", "aten.all.dim", "aten.all.dims"), _all),
    "aten.cumsum.default": _cumsum,
    "aten.linalg_vector_norm.default": _norm,
    "aten.softmax.int": _softmax,
    "aten.log_softmax.int": _log_softmax,
    "aten._softmax.default": _softmax_half,
    "aten._safe_softmax.default": _softmax,
    "aten._log_softmax.default": _log_softmax_half,
    "aten.logsumexp.default": _logsumexp,
}
