"""Convolutions over any number of axes, as matrix products (see `fedloom.models.layers`)."""

from collections.abc import Sequence

import jax.numpy as jnp

from fedloom.models.graph.operations.arithmetic import Table
from fedloom.models.graph.operations.windows import (
    Sizes,
    channels_first,
    channels_last,
    each,
    padded,
    taps,
)
from fedloom.types import Array


def convolved(
    x: Array, weight: Array, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    """Convolution without padding: x channels last, weight (outputs, inputs a group, ...)."""
    outputs, inputs, *kernel = weight.shape
    shifts = list(taps(x, kernel, stride, dilation))
    if groups == 1:
        patches = shifts[0] if len(shifts) == 1 else jnp.concatenate(shifts, axis=-1)
        matrix = channels_last(weight).reshape(outputs, -1).T
        product = patches.reshape(-1, patches.shape[-1]) @ matrix
        return product.reshape(*patches.shape[:-1], outputs)
    by_group = weight.reshape(groups, outputs // groups, inputs, -1)
    if inputs == 1:  # depthwise: every channel by itself, with no product of matrices in it
        seen = sum(
            shift[..., None] * by_group[:, :, 0, place] for place, shift in enumerate(shifts)
        )
        return jnp.asarray(seen).reshape(*shifts[0].shape[:-1], outputs)
    stacked = jnp.stack(shifts, axis=-2)
    parts = stacked.reshape(*stacked.shape[:-1], groups, inputs)
    seen = jnp.einsum("...tgc,goct->...go", parts, by_group)
    return seen.reshape(*shifts[0].shape[:-1], outputs)


def _finished(y: Array, bias: Array | None) -> Array:
    return channels_first(y if bias is None else y + bias)


def _conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    if x.ndim < weight.ndim:  # one image alone
        return _conv(x[None], weight, bias, stride, padding, dilation, groups)[0]
    axes = weight.ndim - 2
    steps, apart = each(stride, axes), each(dilation, axes)
    if padding == "same":
        wide = [d * (k - 1) for k, d in zip(weight.shape[2:], apart, strict=True)]
        edges = [(total // 2, total - total // 2) for total in wide]
    else:
        sides = [0] * axes if isinstance(padding, str) else each(padding, axes)
        edges = [(p, p) for p in sides]
    around = padded(channels_last(x), edges, 0)
    return _finished(convolved(around, weight, steps, apart, groups), bias)


def _conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Array:
    """The transposed map: a convolution of the image with holes, by the kernel turned around."""
    axes = weight.ndim - 2
    steps, apart = each(stride, axes), each(dilation, axes)
    inputs, outputs, *kernel = weight.shape
    edges = [
        (d * (k - 1) - p, d * (k - 1) - p + more)
        for k, d, p, more in zip(
            kernel, apart, each(padding, axes), each(output_padding, axes), strict=True
        )
    ]
    around = padded(channels_last(x), edges, 0, [s - 1 for s in steps])
    turned = jnp.flip(weight, tuple(range(2, weight.ndim)))
    by_group = turned.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    swapped = by_group.reshape(groups * outputs, inputs // groups, *kernel)
    return _finished(convolved(around, swapped, (1,) * axes, apart, groups), bias)


def _convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Array:
    if transposed:
        return _conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(x, weight, bias, stride, padding, dilation, groups)


TABLE: Table = {
    **{
        f"aten.conv{axes}d.{overload}": _conv
        for axes in (1, 2, 3)
        for overload in ("default", "padding")
    },
    "aten.conv_transpose1d.default": _conv_transpose,
    **{f"aten.conv_transpose{axes}d.input": _conv_transpose for axes in (2, 3)},
    "aten.convolution.default": _convolution,
}
