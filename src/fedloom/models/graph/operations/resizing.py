"""Images made larger or smaller: to the nearest pixel, or between pixels."""

from collections.abc import Sequence

import jax.numpy as jnp

from fedloom.models.graph.operations.arithmetic import Table
from fedloom.types import Array


def _lengths(
    x: Array, output_size: Sequence[int] | None, factors: Sequence[float] | None
) -> list[tuple[int, int, float]]:
    """Of each axis after the channels: which, its new length, and old pixels to a new one."""
    found = []
    for i, length in enumerate(x.shape[2:]):
        if output_size is not None:
            found.append((i + 2, output_size[i], length / output_size[i]))
        else:
            factor = 1.0 if factors is None else factors[i]
            found.append((i + 2, int(length * factor), 1 / factor))
    return found


def _nearest(
    x: Array, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None = None
) -> Array:
    for axis, count, ratio in _lengths(x, output_size, scale_factors):
        times, rest = divmod(count, x.shape[axis])
        if rest == 0:  # every pixel as often: no gathering
            x = jnp.repeat(x, times, axis, total_repeat_length=count)
        else:
            place = jnp.floor(jnp.arange(count) * ratio).astype(int)
            x = jnp.take(x, jnp.minimum(place, x.shape[axis] - 1), axis)
    return x


def _linear(
    x: Array,
    output_size: Sequence[int] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
) -> Array:
    """Between the two nearest pixels of each axis: one matrix product for each."""
    for axis, count, ratio in _lengths(x, output_size, scale_factors):
        length = x.shape[axis]
        new = jnp.arange(count, dtype=x.dtype)
        if align_corners:
            place = new * ((length - 1) / max(count - 1, 1))
        else:
            place = jnp.maximum((new + 0.5) * ratio - 0.5, 0)
        place = jnp.minimum(place, length - 1)
        distance = jnp.abs(place[:, None] - jnp.arange(length, dtype=x.dtype))
        weights = jnp.maximum(1 - distance, 0)
        x = jnp.moveaxis(jnp.moveaxis(x, axis, -1) @ weights.T, -1, axis)
    return x


TABLE: Table = {
    **{f"aten.upsample_nearest{axes}d.vec": _nearest for axes in (1, 2, 3)},
    **{f"aten.upsample_{name}.vec": _linear for name in ("linear1d", "bilinear2d", "trilinear3d")},
}
