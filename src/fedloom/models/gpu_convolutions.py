"""Convolutions as kernels for a GPU: the patches of an image never reach its memory.

A convolution as a matrix product of patches writes and reads every pixel once for each place of the
kernel, and its result before the pooling, which is four times what is left of it. Networks as small
as those of clients spend their time on that. Here a block of results takes its patches from the
image, is pooled and passes relu where it is, and what is written is the pooled result and, for the
gradient, which of its window it was. Sums are taken in a fixed order, so the same program gives the
same bits; products are those of JAX's default precision, tensor cores included. There are first
derivatives only.

Addresses are computed: all arrays are flat, and `gpu_geometry.py` says where a place of the result,
an entry of the kernel and a pixel meet.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from fedloom.models.gpu_geometry import MOST, Entry, Geometry, block_of, parted, power
from fedloom.types import Array

_NOWHERE = 4  # what is kept of a window that relu has set to zero


class Tile(NamedTuple):
    """What a program of a kernel computes; found by trying on an H200."""

    places: int  # of the result, or pixels
    addends: int  # of a product
    warps: int
    stages: int  # of loads that are under way


_FORWARD = Tile(64, 32, 2, 2)
_BY_WEIGHTS = Tile(512, 32, 2, 2)
_BY_IMAGES = Tile(128, 32, 4, 1)


def _product(a: Array, b: Array, over: int = 1) -> Array:
    """The sum over an axis of a and the first of b."""
    dimensions = (((over,), (0,)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32)


def _load(ref: Any, address: Array, found: Array) -> Array:
    found = jnp.broadcast_to(found, address.shape)
    return triton.load(ref.at[address], mask=found, other=0)


def _forward(x: Any, weights: Any, *rest: Any, g: Geometry, tile: Tile) -> None:
    """Results of some places for some outputs; pooled ones with the corner they came from."""
    place = block_of(pl.program_id(0), tile.places)[:, None]
    columns = power(g.outputs)
    output = block_of(pl.program_id(1), columns)[None, :]

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
    columns = power(g.outputs)
    step, blocks = Entry.blocks(g, g.inputs, MOST)
    column, block = parted(pl.program_id(0), blocks)
    output, share = block_of(column, columns)[None, :], pl.program_id(1)
    entry = Entry.block(g, g.inputs, MOST, block, 1)

    def add(k: Array, total: Array) -> Array:
        place = share * tile.places + block_of(k, tile.addends)[:, None]
        found = (place < g.places) & (output < g.outputs)
        slopes = _slopes(slope, first, place * g.outputs + output, found)
        for corner in range(g.window**2):
            patch = _load(x, *g.pixels(place, entry, corner))
            total += _product(patch, slopes(corner), over=0)
        return total

    zero = jnp.zeros((step, columns), jnp.float32)
    total = jax.lax.fori_loop(0, tile.places // tile.addends, add, zero)
    entry = Entry.block(g, g.inputs, MOST, block, 0)
    number = (entry.down * g.size + entry.right) * g.inputs + entry.channel
    address = (share * g.entries + number) * g.outputs + output
    triton.store(out.at[address], total, mask=entry.found & (output < g.outputs))


def _by_images(weights: Any, slope: Any, *rest: Any, g: Geometry, tile: Tile) -> None:
    """The gradient by some pixels."""
    *first, out = rest
    pixel = block_of(pl.program_id(0), tile.places)[:, None]
    columns = power(g.inputs)
    channel = block_of(pl.program_id(1), columns)[None, :]

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
    return pl.cdiv(g.places, _FORWARD.places), pl.cdiv(g.outputs, power(g.outputs))


def _gradients(
    g: Geometry, weights: Array, x: Array, slope: Array, *first: Array
) -> tuple[Array, Array]:
    """By the kernel and by the images."""
    shares = pl.cdiv(g.places, _BY_WEIGHTS.places)
    blocks = Entry.blocks(g, g.inputs, MOST)[1] * pl.cdiv(g.outputs, power(g.outputs))
    grid = (blocks, shares)
    flat = jax.ShapeDtypeStruct((shares * g.entries * g.outputs,), jnp.float32)
    parts = _call(_by_weights, _BY_WEIGHTS, g, grid, flat, x, slope, *first)
    by_weights = parts.reshape(shares, g.entries, g.outputs).sum(0).astype(weights.dtype)
    flat = jax.ShapeDtypeStruct((x.size,), x.dtype)
    pixels = g.rows * g.height * g.width
    grid = (pl.cdiv(pixels, _BY_IMAGES.places), pl.cdiv(g.inputs, power(g.inputs)))
    by_images = _call(_by_images, _BY_IMAGES, g, grid, flat, weights, slope, *first)
    return by_weights, by_images.reshape(x.shape)
