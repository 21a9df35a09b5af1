"""Poolings: the largest or the mean of windows, of given or of adapted sizes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from fedloom.models.graph.operations.arithmetic import Table
from fedloom.models.graph.operations.shapes import few
from fedloom.models.graph.operations.windows import (
    Sizes,
    channels_first,
    channels_last,
    each,
    padded,
    taps,
)
from fedloom.models.layers import max_pool
from fedloom.types import Array


def _beyond(
    length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """How far a last window, which is not whole, reaches over the padded end."""
    if not ceil_mode:
        return 0
    reach = dilation * (kernel - 1) + 1
    steps = -(-(length + 2 * padding - reach) // stride)
    if steps * stride >= length + padding:  # it would begin in the padding
        steps -= 1
    return max(0, steps * stride + reach - length - 2 * padding)


def _max_pool(axes: int) -> Callable[..., Array]:
    """The largest of each window, over so many last axes."""

    def pool(
        x: Array,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Array:
        if x.ndim == axes + 1:
            return pool(x[None], kernel_size, stride, padding, dilation, ceil_mode)[0]
        kernel, apart = each(kernel_size, axes), each(dilation, axes)
        steps, sides = each(stride or kernel_size, axes), each(padding, axes)
        beyond = [
            _beyond(*sizes, ceil_mode)
            for sizes in zip(x.shape[2:], kernel, steps, sides, apart, strict=True)
        ]
        if kernel == steps == (2, 2) and not any((*sides, *beyond)) and apart == (1, 1):
            return channels_first(max_pool(channels_last(x)))
        edges = [(side, side + more) for side, more in zip(sides, beyond, strict=True)]
        first, *others = taps(padded(channels_last(x), edges, -jnp.inf), kernel, steps, apart)
        for other in others:  # the slope goes to the first of equal numbers
            first = jnp.where(other > first, other, first)
        return channels_first(first)

    return pool


def _alone(pool: Callable[..., Array]) -> Callable[..., tuple[Array]]:
    """As PyTorch returns it: without the places of the largest, which networks do not use."""

    @functools.wraps(pool)
    def first(*args: Any, **kwargs: Any) -> tuple[Array]:
        return (pool(*args, **kwargs),)

    return first


def _avg_pool(axes: int) -> Callable[..., Array]:
    """The mean of each window, over so many last axes."""

    def pool(
        x: Array,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        kernel = each(kernel_size, axes)
        steps, sides = each(stride or kernel_size, axes), each(padding, axes)
        beyond = [
            _beyond(*sizes, 1, ceil_mode)
            for sizes in zip(x.shape[2:], kernel, steps, sides, strict=True)
        ]
        edges = [(side, side) for side in sides]
        ends = [(0, more) for more in beyond]

        def sums(values: Array, around: float) -> Array:
            wide = padded(padded(values, edges, around), ends, 0)
            return sum(taps(wide, kernel, steps, (1,) * axes), start=jnp.zeros((), values.dtype))

        total = sums(channels_last(x), 0)
        if divisor_override is not None:
            return channels_first(total / divisor_override)
        ones = jnp.ones((1, *x.shape[2:], 1), x.dtype)
        return channels_first(total / sums(ones, 1.0 if count_include_pad else 0.0))

    return pool


def _adaptive_avg_pool(x: Array, output_size: Sequence[int | None]) -> Array:
    """The mean of windows that together cover an axis, for each of the last axes."""
    for axis, wanted in enumerate(output_size, x.ndim - len(output_size)):
        length = x.shape[axis]
        count = length if wanted is None else wanted
        if count == 1:
            x = x.mean(axis, keepdims=True)
        elif count != length:
            place, window = jnp.arange(length), jnp.arange(count)[:, None]
            inside = (place >= window * length // count) & (
                place < -(-(window + 1) * length // count)
            )
            weights = inside.astype(x.dtype) / inside.sum(1, keepdims=True).astype(x.dtype)
            x = jnp.moveaxis(jnp.moveaxis(x, axis, -1) @ weights.T, -1, axis)
    return x


def _adaptive_max_pool(x: Array, output_size: Sequence[int]) -> tuple[Array]:
    for axis, count in enumerate(output_size, x.ndim - len(output_size)):
        length = x.shape[axis]
        windows = [
            jnp.take(x, jnp.arange(i * length // count, -(-(i + 1) * length // count)), axis)
            for i in range(few(count, "the windows of a pooling"))
        ]
        x = jnp.concatenate([window.max(axis, keepdims=True) for window in windows], axis)
    return (x,)


TABLE: Table = {
    "aten.max_pool1d.default": _max_pool(1),
    "aten.max_pool2d.default": _max_pool(2),
    "aten.max_pool2d_with_indices.default": _alone(_max_pool(2)),
    "aten.avg_pool1d.default": _avg_pool(1),
    "aten.avg_pool2d.default": _avg_pool(2),
    **dict.fromkeys(
        (
            *("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default"),
            *("aten._adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default"),
        ),
        _adaptive_avg_pool,
    ),
    "aten.adaptive_max_pool2d.default": _adaptive_max_pool,
}
