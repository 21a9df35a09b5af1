"""Operations that move numbers without computing: shapes, parts, indices, types."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from fedloom.errors import DataError
from fedloom.models.graph.operations.arithmetic import Table
from fedloom.types import Array

MOST_PARTS = 4096  # that one operation may make, so that a forged number cannot stall a site


def few(count: int, what: str) -> int:
    """The count, where a loop over so many is reasonable."""
    if count > MOST_PARTS:
        raise DataError(f"{what} must be at most {MOST_PARTS}; got {count}.")
    return count


def _view(x: Array, size: Sequence[int]) -> Array:
    return x.reshape(tuple(size))


def _flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    start, end = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim = dim % x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def _permute(x: Array, dims: Sequence[int]) -> Array:
    return x.transpose(tuple(dims))


def _transpose(x: Array, dim0: int, dim1: int) -> Array:
    return jnp.swapaxes(x, dim0, dim1)


def _t(x: Array) -> Array:
    return x.T


def _unsqueeze(x: Array, dim: int) -> Array:
    return jnp.expand_dims(x, dim)


def _squeeze(x: Array, dim: int | Sequence[int] | None = None) -> Array:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return jnp.squeeze(x, tuple(d for d in dims if x.shape[d] == 1))


def _expand(x: Array, size: Sequence[int], implicit: bool = False) -> Array:
    new = len(size) - x.ndim
    return jnp.broadcast_to(x, [x.shape[i - new] if n == -1 else n for i, n in enumerate(size)])


def _expand_as(x: Array, other: Array) -> Array:
    return jnp.broadcast_to(x, other.shape)


def _repeat(x: Array, repeats: Sequence[int]) -> Array:
    return jnp.tile(x, tuple(repeats))


def _repeat_interleave(x: Array, repeats: int, dim: int, output_size: int | None = None) -> Array:
    dim = dim % x.ndim
    wide = jnp.broadcast_to(
        jnp.expand_dims(x, dim + 1), (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    )
    return wide.reshape(*x.shape[:dim], -1, *x.shape[dim + 1 :])


def _cat(parts: Sequence[Array], dim: int = 0) -> Array:
    # PyTorch leaves an empty vector out, whatever the shapes of the others.
    return jnp.concatenate([part for part in parts if part.shape != (0,)], dim)


def _stack(parts: Sequence[Array], dim: int = 0) -> Array:
    return jnp.stack(list(parts), dim)


def _split(x: Array, size: int, dim: int = 0) -> tuple[Array, ...]:
    length = x.shape[dim]
    few(-(-length // size), "the parts of a split")
    return tuple(
        lax.slice_in_dim(x, at, min(at + size, length), axis=dim) for at in range(0, length, size)
    )


def _split_sizes(x: Array, sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    parts, at = [], 0
    for size in sizes:
        parts.append(lax.slice_in_dim(x, at, at + size, axis=dim))
        at += size
    return tuple(parts)


def _chunk(x: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    return _split(x, -(-x.shape[dim] // chunks), dim)


def _unbind(x: Array, dim: int = 0) -> tuple[Array, ...]:
    few(x.shape[dim], "the parts of an unbind")
    return tuple(_select(x, dim, i) for i in range(x.shape[dim]))


def _select(x: Array, dim: int, index: int) -> Array:
    return lax.index_in_dim(x, index, dim, keepdims=False)


def _slice(
    x: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _narrow(x: Array, dim: int, start: int, length: int) -> Array:
    return lax.slice_in_dim(x, start, start + length, axis=dim)


def _index(x: Array, indices: Sequence[Array | None]) -> Array:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def _index_select(x: Array, dim: int, index: Array) -> Array:
    return jnp.take(x, index, axis=dim)


def _gather(x: Array, dim: int, index: Array, sparse_grad: bool = False) -> Array:
    places = [jnp.arange(n).reshape(-1, *[1] * (x.ndim - 1 - i)) for i, n in enumerate(index.shape)]
    places[dim] = index
    return x[tuple(places)]


def _flip(x: Array, dims: Sequence[int]) -> Array:
    return jnp.flip(x, tuple(dims))


def _roll(x: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    return jnp.roll(x, tuple(shifts), tuple(dims)) if dims else jnp.roll(x, shifts[0])


def _pad(x: Array, pad: Sequence[int], value: float = 0) -> Array:
    """Amounts stand from the last axis to the first, two for each; negative ones cut."""
    edges = [(0, 0, 0)] * (x.ndim - len(pad) // 2)
    edges += [(pad[i], pad[i + 1], 0) for i in range(len(pad) - 2, -1, -2)]
    return lax.pad(x, jnp.asarray(value, x.dtype), edges)


def _pad_mode(
    x: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Array:
    if mode == "constant":
        return _pad(x, pad, value or 0)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    edges = [(0, 0)] * (x.ndim - len(pad) // 2)
    edges += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return jnp.pad(x, edges, mode=names[mode])


def _same(x: Array) -> Array:
    return x


def _detach(x: Array) -> Array:
    return lax.stop_gradient(x)


def _to(x: Array, dtype: Any = None, non_blocking: bool = False, copy: bool = False) -> Array:
    return x if dtype is None else x.astype(dtype)


def _type_as(x: Array, other: Array) -> Array:
    return x.astype(other.dtype)


def _tril(x: Array, diagonal: int = 0) -> Array:
    return jnp.tril(x, diagonal)


def _triu(x: Array, diagonal: int = 0) -> Array:
    return jnp.triu(x, diagonal)


def _pixel_shuffle(x: Array, factor: int) -> Array:
    *rows, _, height, width = x.shape
    x = x.reshape(*rows, -1, factor, factor, height, width)
    n = len(rows)
    x = x.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*rows, -1, height * factor, width * factor)


def _size(x: Array, dim: int) -> int:
    return x.shape[dim]


def _getitem(parts: Sequence[Any], index: int) -> Any:
    return parts[index]


TABLE: Table = {
    **dict.fromkeys(
        ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"), _view
    ),
    "aten.flatten.using_ints": _flatten,
    "aten.unflatten.int": _unflatten,
    "aten.permute.default": _permute,
    **dict.fromkeys(("aten.transpose.int", "aten.swapaxes.default"), _transpose),
    "aten.t.default": _t,
    "aten.unsqueeze.default": _unsqueeze,
    **dict.fromkeys(("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"), _squeeze),
    "aten.expand.default": _expand,
    "aten.expand_as.default": _expand_as,
    **dict.fromkeys(("aten.repeat.default", "aten.tile.default"), _repeat),
    "aten.repeat_interleave.self_int": _repeat_interleave,
    **dict.fromkeys(("aten.cat.default", "aten.concat.default"), _cat),
    "aten.stack.default": _stack,
    "aten.split.Tensor": _split,
    **dict.fromkeys(("aten.split_with_sizes.default", "aten.split.sizes"), _split_sizes),
    "aten.chunk.default": _chunk,
    "aten.unbind.int": _unbind,
    "aten.select.int": _select,
    "aten.slice.Tensor": _slice,
    "aten.narrow.default": _narrow,
    "aten.index.Tensor": _index,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.flip.default": _flip,
    "aten.roll.default": _roll,
    "aten.constant_pad_nd.default": _pad,
    "aten.pad.default": _pad_mode,
    **dict.fromkeys(
        (
            *("aten.clone.default", "aten.alias.default", "aten.contiguous.default"),
            *("aten.lift_fresh_copy.default", "aten.positive.default"),
        ),
        _same,
    ),
    **dict.fromkeys(("aten.detach.default", "aten.detach_.default"), _detach),
    **dict.fromkeys(("aten._to_copy.default", "aten.to.dtype"), _to),
    "aten.type_as.default": _type_as,
    "aten.tril.default": _tril,
    "aten.triu.default": _triu,
    "aten.pixel_shuffle.default": _pixel_shuffle,
    "aten.sym_size.int": _size,
    "operator.getitem": _getitem,
}
