"""Convolutions as kernels for a GPU: the patches of an image never reach its memory.

A convolution as a matrix product of patches writes and reads every pixel once for each place of the
kernel, and its result before the pooling, which is four times what is left of it. Networks as small
as those of clients spend their time on that. Here a block of results takes its patches from the
image, is pooled and passes relu where it is, and what is written is the pooled result and, for the
gradient, which of its window it was. Sums are taken in a fixed order, so the same program gives the
same bits; products are those of JAX's default precision, tensor cores included. There are first
derivatives only.

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

_NOWHERE = 4  # what is kept of a window that relu has set to zero
_FAR = -(2**20)  # where there are no pixels
_MOST = 64  # outputs, or channels, that a program takes
_FEW = 8  # channels, up to which a product takes several places of the kernel at once


class Tile(NamedTuple):
    """What a program of a kernel computes; found by trying on an H200."""

    places: int  # of the result, or pixels
    addends: int  # of a product
    warps: int
    stages: int  # of loads that are under way


_FORWARD = Tile(64, 32, 2, 2)
_BY_WEIGHTS = Tile(512, 32, 2, 2)
_BY_IMAGES = Tile(128, 32, 4, 1)


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

    @property
    def pays(self) -> bool:
        """Whether the kernels are quicker than matrix products of patches, as far as was tried.

        They were on an H200 for kernels of side 3 and up to 64 channels. A pooled result of 64
        channels needs more registers than a thread has; with few inputs and many outputs, or a
        kernel of side 5, the addresses take longer than the products.
        """
        slim = max(self.inputs, self.outputs) <= _MOST and self.outputs * self.window**2 <= 128
        return slim and self.size <= 3 and (self.inputs > _FEW or self.outputs <= 16)

    def pixels(self, place: Array, entry: "Entry", corner: int) -> tuple[Array, Array]:
        """Addresses in the images and whether there is a pixel, for a corner of the window."""
        row, i, j = _split(place, self.high, self.wide)
        y = (i * self.window + corner // 2) * self.stride - self.padding
        x = (j * self.window + corner % 2) * self.stride - self.padding
        start = ((row * self.height + y) * self.width + x) * self.inputs
        offset = (entry.down * self.width + entry.right) * self.inputs + entry.channel
        y, x = jnp.where(place < self.places, y, _FAR) + entry.down, x + entry.right
        found = (y >= 0) & (y < self.height) & (x >= 0) & (x < self.width)
        return start + offset, found & entry.found

    def results(self, pixel: Array, entry: "Entry") -> tuple[Array, Array, Array]:
        """Addresses in the pooled result, whether it is there, and the corner of its window.

        Of the results to which a pixel contributes by an entry, whose channel is an output.
        """
        row, y, x = _split(pixel, self.height, self.width)
        y = jnp.where(pixel < self.rows * self.height * self.width, y, _FAR)
        y, x = y + self.padding - entry.down, x + self.padding - entry.right
        found = (y >= 0) & (x >= 0)
        (y, between), (x, beside) = _parted(y, self.stride), _parted(x, self.stride)
        found &= (between == 0) & (beside == 0)
        (y, lower), (x, later) = _parted(y, self.window), _parted(x, self.window)
        corner = 2 * lower + later
        found &= (y < self.high) & (x < self.wide)
        start = ((row * self.high + y) * self.wide + x) * self.outputs
        return start + entry.channel, found & entry.found, corner


class Entry(NamedTuple):
    """Entries of the kernel for one output, or one input: places and channels."""

    down: Array
    right: Array
    channel: Array
    found: Array

    @staticmethod
    def blocks(g: Geometry, channels: int, most: int) -> tuple[int, int]:
        """How many a block has, and how many blocks there are.

        A block is of one place where there are enough channels, so that what is side by side in
        memory is read together; few channels are taken at several places at once.
        """
        if channels <= _FEW:
            count = g.size * g.size * channels
            size = _power(count, most=most)
            return size, pl.cdiv(count, size)
        size = _power(channels, most=most)
        return size, g.size * g.size * pl.cdiv(channels, size)

    @staticmethod
    def block(g: Geometry, channels: int, most: int, k: Any, axis: int) -> "Entry":
        """The k-th block, along an axis of two."""
        size, _ = Entry.blocks(g, channels, most)
        if channels <= _FEW:
            entry = jnp.expand_dims(_block(k, size), 1 - axis)
            return Entry(*_split(entry, g.size, channels), entry < g.size * g.size * channels)
        down, right, part = _split(jnp.asarray(k), g.size, pl.cdiv(channels, size))
        channel = jnp.expand_dims(_block(part, size), 1 - axis)
        return Entry(down, right, channel, channel < channels)


def _parted(number: Array, by: int) -> tuple[Array, Array]:
    """Quotient and rest; Python's, for negative numbers, take several instructions more."""
    if by == 1:
        return number, jnp.zeros_like(number)
    whole = jax.lax.div(number, jnp.full_like(number, by))
    return whole, number - by * whole


def _split(number: Array, middle: int, last: int) -> tuple[Array, Array, Array]:
    number, third = _parted(number, last)
    return *_parted(number, middle), third


def _block(program: Any, size: int) -> Array:
    return program * size + jnp.arange(size, dtype=jnp.int32)


def _power(number: int, most: int = _MOST) -> int:
    """The next power of two, since those are the sizes of blocks."""
    return min(most, max(16, pl.next_power_of_2(number)))


def _product(a: Array, b: Array, over: int = 1) -> Array:
    """The sum over an axis of a and the first of b."""
    dimensions = (((over,), (0,)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32)


def _load(ref: Any, address: Array, found: Array) -> Array:
    found = jnp.broadcast_to(found, address.shape)
    return triton.load(ref.at[address], mask=found, other=0)


def _forward(x: Any, weights: Any, *rest: Any, g: Geometry, tile: Tile) -> None:
    """Results of some places for some outputs; pooled ones with the corner they came from."""
    place = _block(pl.program_id(0), tile.places)[:, None]
    columns = _power(g.outputs)
    output = _block(pl.program_id(1), columns)[None, :]

    def add(k: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        entry = Entry.block(g, g.inputs, tile.addends, k, 0)
        number = (entry.down * g.size + entry.right) * g.inputs + entry.channel
        kernel = _load(weights, number * g.outputs + output, entry.found & (output < g.outputs))
        entry = Entry.block(g, g.inputs, tile.addends, k, 1)
        return tuple(
            total + _product(_load(x, *g.pixels(place, entry, corner)), kernel)
            for corner, total in enumerate(sums)
        )

    sums = (jnp.zeros((tile.places, columns), jnp.float32),) * g.window**2
    best, *others = jax.lax.fori_loop(0, Entry.blocks(g, g.inputs, tile.addends)[1], add, sums)
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


def _by_weights(x: Any, slope: Any, *rest: Any, g: Geometry, tile: Tile) -> None:
    """The gradient by some entries of the kernel, summed over a share of the places."""
    *first, out = rest
    columns = _power(g.outputs)
    step, blocks = Entry.blocks(g, g.inputs, _MOST)
    column, block = _parted(pl.program_id(0), blocks)
    output, share = _block(column, columns)[None, :], pl.program_id(1)
    entry = Entry.block(g, g.inputs, _MOST, block, 1)

    def add(k: Array, total: Array) -> Array:
        place = share * tile.places + _block(k, tile.addends)[:, None]
        found = (place < g.places) & (output < g.outputs)
        slopes = _slopes(slope, first, place * g.outputs + output, found)
        for corner in range(g.window**2):
            patch = _load(x, *g.pixels(place, entry, corner))
            total += _product(patch, slopes(corner), over=0)
        return total

    zero = jnp.zeros((step, columns), jnp.float32)
    total = jax.lax.fori_loop(0, tile.places // tile.addends, add, zero)
    entry = Entry.block(g, g.inputs, _MOST, block, 0)
    number = (entry.down * g.size + entry.right) * g.inputs + entry.channel
    address = (share * g.entries + number) * g.outputs + output
    triton.store(out.at[address], total, mask=entry.found & (output < g.outputs))


def _by_images(weights: Any, slope: Any, *rest: Any, g: Geometry, tile: Tile) -> None:
    """The gradient by some pixels."""
    *first, out = rest
    pixel = _block(pl.program_id(0), tile.places)[:, None]
    columns = _power(g.inputs)
    channel = _block(pl.program_id(1), columns)[None, :]

    def add(k: Array, total: Array) -> Array:
        entry = Entry.block(g, g.outputs, tile.addends, k, 1)
        address, found, corner = g.results(pixel, entry)
        slopes = _slopes(slope, first, address, found)(corner)
        entry = Entry.block(g, g.outputs, tile.addends, k, 0)
        spot = (entry.down * g.size + entry.right) * g.inputs
        address = (spot + channel) * g.outputs + entry.channel
        return total + _product(slopes, _load(weights, address, entry.found & (channel < g.inputs)))

    zero = jnp.zeros((tile.places, columns), jnp.float32)
    total = jax.lax.fori_loop(0, Entry.blocks(g, g.outputs, tile.addends)[1], add, zero)
    found = (pixel < g.rows * g.height * g.width) & (channel < g.inputs)
    triton.store(out.at[pixel * g.inputs + channel], total.astype(out.dtype), mask=found)


def _call(
    kernel: Any, tile: Tile, g: Geometry, grid: tuple[int, int], out_shape: Any, *arrays: Array
) -> Any:
    return pl.pallas_call(
        functools.partial(kernel, g=g, tile=tile),
        out_shape=out_shape,
        grid=grid,
        interpret=jax.default_backend() != "gpu",
        compiler_params=triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        name=kernel.__name__.strip("_"),
    )(*(array.ravel() for array in arrays))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def conv(g: Geometry, weights: Array, x: Array) -> Array:
    """The convolution without bias of images."""
    return _conv(g, weights, x)[0]


def _conv(g: Geometry, weights: Array, x: Array) -> tuple[Array, Any]:
    flat = jax.ShapeDtypeStruct((g.places * g.outputs,), x.dtype)
    out = _call(_forward, _FORWARD, g, _results_grid(g), flat, x, weights)
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
    out, first = _call(_forward, _FORWARD, g, _results_grid(g), outs, x, weights, bias)
    return out.reshape(g.rows, g.high, g.wide, g.outputs), (weights, x, first)


def _conv_pool_back(g: Geometry, saved: Any, slope: Array) -> tuple[Array, Array, Array]:
    weights, x, first = saved
    by_weights, by_images = _gradients(g, weights, x, slope, first)
    on = jnp.where(first.reshape(slope.shape) < _NOWHERE, slope, 0)
    by_bias = on.sum((0, 1, 2), dtype=jnp.float32).astype(weights.dtype)
    return by_weights, by_bias, by_images


conv_pool.defvjp(_conv_pool, _conv_pool_back)


def _results_grid(g: Geometry) -> tuple[int, int]:
    return pl.cdiv(g.places, _FORWARD.places), pl.cdiv(g.outputs, _power(g.outputs))


def _gradients(
    g: Geometry, weights: Array, x: Array, slope: Array, *first: Array
) -> tuple[Array, Array]:
    """By the kernel and by the images."""
    shares = pl.cdiv(g.places, _BY_WEIGHTS.places)
    blocks = Entry.blocks(g, g.inputs, _MOST)[1] * pl.cdiv(g.outputs, _power(g.outputs))
    grid = (blocks, shares)
    flat = jax.ShapeDtypeStruct((shares * g.entries * g.outputs,), jnp.float32)
    parts = _call(_by_weights, _BY_WEIGHTS, g, grid, flat, x, slope, *first)
    by_weights = parts.reshape(shares, g.entries, g.outputs).sum(0).astype(weights.dtype)
    flat = jax.ShapeDtypeStruct((x.size,), x.dtype)
    pixels = g.rows * g.height * g.width
    grid = (pl.cdiv(pixels, _BY_IMAGES.places), pl.cdiv(g.inputs, _power(g.inputs)))
    by_images = _call(_by_images, _BY_IMAGES, g, grid, flat, weights, slope, *first)
    return by_weights, by_images.reshape(x.shape)
