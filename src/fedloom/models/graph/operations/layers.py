"""Layers: products of matrices, embeddings, norms of one row at a time."""

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from fedloom.errors import DataError
from fedloom.models.graph.operations.arithmetic import Table
from fedloom.types import Array


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    y = x @ weight.T
    return y if bias is None else y + bias


def _addmm(x: Array, a: Array, b: Array, beta: float = 1, alpha: float = 1) -> Array:
    product = a @ b
    return (x if beta == 1 else beta * x) + (product if alpha == 1 else alpha * product)


def _matmul(a: Array, b: Array) -> Array:
    return a @ b


def _einsum(equation: str, operands: Sequence[Array], path: None = None) -> Array:
    return jnp.einsum(equation, *operands)


def _embedding(
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    if scale_grad_by_freq:
        raise DataError("scale_grad_by_freq is not known here.")
    found = weight[indices]
    if padding_idx < 0:
        return found
    # The vector of the padding is not trained.
    return jnp.where((indices == padding_idx)[..., None], lax.stop_gradient(found), found)


def _standardised(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """Mean 0 and variance 1 over some axes."""
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + eps)


def scaled(x: Array, weight: Array | None, bias: Array | None) -> Array:
    """Each number times its weight, plus its bias, where there are some."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def by_channel(array: Array | None, x: Array) -> Array | None:
    """One number for each channel, in the shape that fits x, whose second axis are channels."""
    return None if array is None else array.reshape(-1, *[1] * (x.ndim - 2))


def _layer_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    return scaled(_standardised(x, axes, eps), weight, bias)


def _native_layer_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> tuple[Array]:
    """The first of PyTorch's three results; the others serve its own derivative."""
    return (_layer_norm(x, normalized_shape, weight, bias, eps),)


def _rms_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    floor = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    return scaled(x * lax.rsqrt((x * x).mean(axes, keepdims=True) + floor), weight, None)


def _group_norm(
    x: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Array:
    parts = x.reshape(x.shape[0], num_groups, -1)
    y = _standardised(parts, (-1,), eps).reshape(x.shape)
    return scaled(y, by_channel(weight, x), by_channel(bias, x))


def _instance_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    if not use_input_stats:
        raise DataError("an instance norm with running statistics is not known here.")
    return _group_norm(x, x.shape[1], weight, bias, eps)


TABLE: Table = {
    "aten.linear.default": _linear,
    **dict.fromkeys(("aten.addmm.default", "aten.baddbmm.default"), _addmm),
    **dict.fromkeys(
        (
            *("aten.mm.default", "aten.bmm.default", "aten.matmul.default"),
            *("aten.mv.default", "aten.dot.default"),
        ),
        _matmul,
    ),
    "aten.einsum.default": _einsum,
    "aten.embedding.default": _embedding,
    "aten.layer_norm.default": _layer_norm,
    "aten.native_layer_norm.default": _native_layer_norm,
    "aten.rms_norm.default": _rms_norm,
    "aten.group_norm.default": _group_norm,
    "aten.instance_norm.default": _instance_norm,
}
