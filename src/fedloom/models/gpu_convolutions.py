"""Convolutions as kernels for a GPU: the patches of an image never reach its memory.

A convolution as a matrix product of patches writes and reads every pixel once for each place of the
kernel, and its result before the pooling, which is four times what is left of it. Networks as small
as those of clients spend their time on that. Here a block of results takes its patches from the
image, is pooled and passes relu where it is, and what is written is the pooled result and, for the
gradient, which of its window it was. Sums are taken in a fixed order, so the same program gives the
same bits; products are those of JAX's default precision, tensor cores included.

Addresses are computed: all arrays are flat, and `Geometry` says where a place of the result, an
entry of the kernel and a pixel meet.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from fedloom.types import Array

_PLACES = 64  # of the result, or pixels, that a program computes
_ADDENDS = 32  # that a product takes at a time
_SHARE = 1024  # places that a program adds up for the gradient by the kernel
_NOWHERE = 4  # what is kept of a window that relu has set to zero


class Geometry(NamedTuple):
    """Images (rows, height, width, inputs), a kernel, and windows of pooling of side 1 or 2."""

    rows: int
    height: int
    width: int
    inputs: int
    outputs: int
    size: int
    padding: int
    stride: int
    window: int

    @property
    def high(self) -> int:
        """Of the pooled result."""
        return ((self.height + 2 * self.padding - self.size) // self.stride + 1) // self.window

    @property
    def wide(self) -> int:
        """Of the pooled result."""
        return ((self.width + 2 * self.padding - self.size) // self.stride + 1) // self.window

    @property
    def places(self) -> int:
        """Of the pooled result, over all rows."""
        return self.rows * self.high * self.wide

    @property
    def entries(self) -> int:
        """Of the kernel, for one output."""
        return self.size * self.size * self.inputs

    def pixels(self, place: Array, entry: Array, corner: int) -> tuple[Array, Array]:
        """Addresses in the images and whether there is a pixel, for a corner of the window."""
        row, i, j = _split(place, self.high, self.wide)
        down, right, channel = _split(entry, self.size, self.inputs)
        y = (i * self.window + corner // 2) * self.stride + down - self.padding
        x = (j * self.window + corner % 2) * self.stride + right - self.padding
        found = (y >= 0) & (y < self.height) & (x >= 0) & (x < self.width)
        found &= (place < self.places) & (entry < self.entries)
        return ((row * self.height + y) * self.width + x) * self.inputs + channel, found

    def results(self, pixel: Array, entry: Array) -> tuple[Array, Array, Array]:
        """Addresses in the pooled result, whether it is there, and the corner of its window.

        Of the results to which a pixel contributes by an entry (down, right, output).
        """
        row, y, x = _split(pixel, self.height, self.width)
        down, right, output = _split(entry, self.size, self.outputs)
        y, x = y + self.padding - down, x + self.padding - right
        found = (y >= 0) & (x >= 0) & (y % self.stride == 0) & (x % self.stride == 0)
        y, x = y // self.stride, x // self.stride
        corner = y % self.window * 2 + x % self.window
        y, x = y // self.window, x // self.window
        found &= (y < self.high) & (x < self.wide)
        found &= (pixel < self.rows * self.height * self.width)
        found &= entry < self.size * self.size * self.outputs
        return ((row * self.high + y) * self.wide + x) * self.outputs + output, found, corner


def _split(number: Array, middle: int, last: int) -> tuple[Array, Array, Array]:
    return number // (middle * last), number // last % middle, number % last


def _block(program: Any, size: int) -> Array:
    return program * size + jnp.arange(size, dtype=jnp.int32)


def _power(number: int, least: int = 16, most: int = 64) -> int:
    """The next power of two, since those are the sizes of blocks."""
    return min(most, max(least, pl.next_power_of_2(number)))


def _addends(number: int) -> int:
    return _power(number, most=_ADDENDS)


def _product(a: Array, b: Array) -> Array:
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _load(ref: Any, address: Array, found: Array) -> Array:
    return triton.load(ref.at[address], mask=found, other=0)


def _forward(x: Any, weights: Any, *rest: Any, g: Geometry) -> None:
    """Results of some places for some outputs; pooled ones with the corner they came from."""
    place = _block(pl.program_id(0), _PLACES)[:, None]
    columns = _power(g.outputs)
    output = _block(pl.program_id(1), columns)[None, :]
    step = _addends(g.entries)

    def add(k: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        entry = _block(k, step)
        found = (entry < g.entries)[:, None] & (output < g.outputs)
        kernel = _load(weights, entry[:, None] * g.outputs + output, found)
        return tuple(
            total + _product(_load(x, *g.pixels(place, entry[None, :], corner)), kernel)
            for corner, total in enumerate(sums)
        )

    sums = (jnp.zeros((_PLACES, columns), jnp.float32),) * g.window**2
    best, *others = jax.lax.fori_loop(0, pl.cdiv(g.entries, step), add, sums)
    address, found = place * g.outputs + output, (place < g.places) & (output < g.outputs)
    if g.window == 1:
        (out,) = rest
    else:
        bias, out, first = rest
        corner = jnp.zeros(best.shape, jnp.int32)
        for k, other in enumerate(others):
            better = (other > best) | (other != other)  # what is not a number stays to be seen
            best, corner = jnp.where(better, other, best), jnp.where(better, k + 1, corner)
        best = best + _load(bias, output, output < g.outputs).astype(jnp.float32)
        off = best <= 0
        best, corner = jnp.where(off, 0, best), jnp.where(off, _NOWHERE, corner)
        triton.store(first.at[address], corner.astype(first.dtype), mask=found)
    triton.store(out.at[address], best.astype(out.dtype), mask=found)


def _slopes(slope: Any, first: Any, address: Array, found: Array) -> Callable[[Any], Array]:
    """The gradient by the result before the pooling, as a function of the corner of the window."""
    values = _load(slope, address, found)
    if not first:
        return lambda _: values
    corners = _load(first[0], address, found).astype(jnp.int32)
    return lambda corner: jnp.where(corners == corner, values, 0)


def _by_weights(x: Any, slope: Any, *rest: Any, g: Geometry) -> None:
    """The gradient by some entries of the kernel, summed over a share of the places."""
    *first, out = rest
    step, columns = _power(g.entries), _power(g.outputs)
    entry = _block(pl.program_id(0) % pl.cdiv(g.entries, step), step)[:, None]
    output = _block(pl.program_id(0) // pl.cdiv(g.entries, step), columns)[None, :]
    share = pl.program_id(1)

    def add(k: Array, total: Array) -> Array:
        place = share * _SHARE + _block(k, _ADDENDS)
        found = (place < g.places)[:, None] & (output < g.outputs)
        slopes = _slopes(slope, first, place[:, None] * g.outputs + output, found)
        for corner in range(g.window**2):
            patch = _load(x, *g.pixels(place[None, :], entry, corner))
            total += _product(patch, slopes(corner))
        return total

    zero = jnp.zeros((step, columns), jnp.float32)
    total = jax.lax.fori_loop(0, _SHARE // _ADDENDS, add, zero)
    address = (share * g.entries + entry) * g.outputs + output
    triton.store(out.at[address], total, mask=(entry < g.entries) & (output < g.outputs))


def _by_images(weights: Any, slope: Any, *rest: Any, g: Geometry) -> None:
    """The gradient by some pixels."""
    *first, out = rest
    pixel = _block(pl.program_id(0), _PLACES)[:, None]
    columns = _power(g.inputs)
    channel = _block(pl.program_id(1), columns)[None, :]
    count = g.size * g.size * g.outputs
    step = _addends(count)

    def add(k: Array, total: Array) -> Array:
        entry = _block(k, step)
        address, found, corner = g.results(pixel, entry[None, :])
        slopes = _slopes(slope, first, address, found)(corner)
        spot, output = entry[:, None] // g.outputs, entry[:, None] % g.outputs
        within = (entry < count)[:, None] & (channel < g.inputs)
        kernel = _load(weights, (spot * g.inputs + channel) * g.outputs + output, within)
        return total + _product(slopes, kernel)

    zero = jnp.zeros((_PLACES, columns), jnp.float32)
    total = jax.lax.fori_loop(0, pl.cdiv(count, step), add, zero)
    found = (pixel < g.rows * g.height * g.width) & (channel < g.inputs)
    triton.store(out.at[pixel * g.inputs + channel], total.astype(out.dtype), mask=found)


def _call(kernel: Any, g: Geometry, grid: tuple[int, int], out_shape: Any, *arrays: Array) -> Any:
    return pl.pallas_call(
        functools.partial(kernel, g=g),
        out_shape=out_shape,
        grid=grid,
        interpret=jax.default_backend() != "gpu",
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        name=kernel.__name__.strip("_"),
    )(*(array.ravel() for array in arrays))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def conv(g: Geometry, weights: Array, x: Array) -> Array:
    """The convolution without bias of images."""
    return _conv(g, weights, x)[0]


def _conv(g: Geometry, weights: Array, x: Array) -> tuple[Array, Any]:
    flat = jax.ShapeDtypeStruct((g.places * g.outputs,), x.dtype)
    out = _call(_forward, g, _results_grid(g), flat, x, weights)
    return out.reshape(g.rows, g.high, g.wide, g.outputs), (weights, x)


def _conv_back(g: Geometry, saved: Any, slope: Array) -> tuple[Array, Array]:
    return _gradients(g, *saved, slope)


conv.defvjp(_conv, _conv_back)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def conv_pool(g: Geometry, weights: Array, bias: Array, x: Array) -> Array:
    """relu(max_pool(convolution + bias)) of images."""
    return _conv_pool(g, weights, bias, x)[0]


def _conv_pool(g: Geometry, weights: Array, bias: Array, x: Array) -> tuple[Array, Any]:
    flat = g.places * g.outputs
    outs = (jax.ShapeDtypeStruct((flat,), x.dtype), jax.ShapeDtypeStruct((flat,), jnp.int8))
    out, first = _call(_forward, g, _results_grid(g), outs, x, weights, bias)
    return out.reshape(g.rows, g.high, g.wide, g.outputs), (weights, x, first)


def _conv_pool_back(g: Geometry, saved: Any, slope: Array) -> tuple[Array, Array, Array]:
    weights, x, first = saved
    by_weights, by_images = _gradients(g, weights, x, slope, first)
    on = jnp.where(first.reshape(slope.shape) < _NOWHERE, slope, 0)
    by_bias = on.sum((0, 1, 2), dtype=jnp.float32).astype(weights.dtype)
    return by_weights, by_bias, by_images


conv_pool.defvjp(_conv_pool, _conv_pool_back)


def _results_grid(g: Geometry) -> tuple[int, int]:
    return pl.cdiv(g.places, _PLACES), pl.cdiv(g.outputs, _power(g.outputs))


def _gradients(
    g: Geometry, weights: Array, x: Array, slope: Array, *first: Array
) -> tuple[Array, Array]:
    """By the kernel and by the images."""
    shares = pl.cdiv(g.places, _SHARE)
    columns = pl.cdiv(g.outputs, _power(g.outputs))
    grid = (pl.cdiv(g.entries, _power(g.entries)) * columns, shares)
    flat = jax.ShapeDtypeStruct((shares * g.entries * g.outputs,), jnp.float32)
    parts = _call(_by_weights, g, grid, flat, x, slope, *first)
    by_weights = parts.reshape(shares, g.entries, g.outputs).sum(0).astype(weights.dtype)
    flat = jax.ShapeDtypeStruct((x.size,), x.dtype)
    pixels = g.rows * g.height * g.width
    grid = (pl.cdiv(pixels, _PLACES), pl.cdiv(g.inputs, _power(g.inputs)))
    by_images = _call(_by_images, g, grid, flat, weights, slope, *first)
    return by_weights, by_images.reshape(x.shape)
