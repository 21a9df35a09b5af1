"""Windows that slide over images, sequences or volumes: what convolutions and poolings share.

Images are (rows, channels, height, width) in a program, as PyTorch has them, and channels last in
here, where a convolution is one matrix product.
"""

import itertools
from collections.abc import Iterator, Sequence

import jax.numpy as jnp
from jax import lax

from fedloom.models.graph.operations.shapes import few
from fedloom.types import Array

Sizes = Sequence[int] | int


def each(sizes: Sizes, axes: int) -> tuple[int, ...]:
    """One number for each axis; one alone is for all of them."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return given * axes if len(given) == 1 else given


def channels_last(x: Array) -> Array:
    """(rows, channels, ...) as (rows, ..., channels)."""
    return jnp.moveaxis(x, 1, -1)


def channels_first(x: Array) -> Array:
    """(rows, ..., channels) as (rows, channels, ...)."""
    return jnp.moveaxis(x, -1, 1)


def padded(x: Array, edges: Sequence[tuple[int, int]], value: float, between: Sizes = 0) -> Array:
    """Images, channels last, with numbers around them, and `between` their neighbours."""
    holes = each(between, x.ndim - 2)
    inner = [(low, high, hole) for (low, high), hole in zip(edges, holes, strict=True)]
    if not any(map(any, inner)):
        return x
    return lax.pad(x, jnp.asarray(value, x.dtype), [(0, 0, 0), *inner, (0, 0, 0)])


def taps(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[Array]:
    """What each place of a kernel sees while it slides over images, channels last."""
    places = 1
    for size in kernel:
        places *= size
    few(places, "the places of a kernel")
    reaches = [1 + d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    counts = [
        (length - reach) // s + 1
        for length, reach, s in zip(x.shape[1:-1], reaches, stride, strict=True)
    ]
    for place in itertools.product(*map(range, kernel)):
        begins = [p * d for p, d in zip(place, dilation, strict=True)]
        window = [
            slice(begin, begin + (count - 1) * s + 1, s)
            for begin, count, s in zip(begins, counts, stride, strict=True)
        ]
        yield x[(slice(None), *window)]
