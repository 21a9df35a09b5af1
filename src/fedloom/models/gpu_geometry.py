"""Where the results of a convolution, the entries of its kernel and the pixels of an image meet.

For the kernels of `gpu_convolutions.py`, which have flat arrays and compute addresses in them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from fedloom.types import Array

MOST = 64  # outputs, or channels, that a program takes
_FAR = -(2**20)  # where there are no pixels
_FEW = 8  # channels, up to which a product takes several places of the kernel at once


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

        They were on an H200 for W2 and ResNet-20: sides of 3 and up to 64 channels, with pooling up
        to 32. They were not for pooled results of 64 channels and, with QuPeD, for sides of 5; few
        inputs with many outputs were not tried alone. docs/performance.md has the figures.
        """
        slim = max(self.inputs, self.outputs) <= MOST and self.outputs * self.window**2 <= 128
        return slim and self.size <= 3 and (self.inputs > _FEW or self.outputs <= 16)

    def pixels(self, place: Array, entry: "Entry", corner: int) -> tuple[Array, Array]:
        """Addresses in the images and whether there is a pixel, for a corner of the window."""
        row, i, j = split(place, self.high, self.wide)
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
        row, y, x = split(pixel, self.height, self.width)
        y = jnp.where(pixel < self.rows * self.height * self.width, y, _FAR)
        y, x = y + self.padding - entry.down, x + self.padding - entry.right
        found = (y >= 0) & (x >= 0)
        (y, between), (x, beside) = parted(y, self.stride), parted(x, self.stride)
        found &= (between == 0) & (beside == 0)
        (y, lower), (x, later) = parted(y, self.window), parted(x, self.window)
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
            size = power(count, most=most)
            return size, pl.cdiv(count, size)
        size = power(channels, most=most)
        return size, g.size * g.size * pl.cdiv(channels, size)

    @staticmethod
    def block(g: Geometry, channels: int, most: int, k: Any, axis: int) -> "Entry":
        """The k-th block, along an axis of two."""
        size, _ = Entry.blocks(g, channels, most)
        if channels <= _FEW:
            entry = jnp.expand_dims(block_of(k, size), 1 - axis)
            return Entry(*split(entry, g.size, channels), entry < g.size * g.size * channels)
        down, right, part = split(jnp.asarray(k), g.size, pl.cdiv(channels, size))
        channel = jnp.expand_dims(block_of(part, size), 1 - axis)
        return Entry(down, right, channel, channel < channels)


def parted(number: Array, by: int) -> tuple[Array, Array]:
    """Quotient and rest; Python's, for negative numbers, take several instructions more."""
    if by == 1:
        return number, jnp.zeros_like(number)
    whole = jax.lax.div(number, jnp.full_like(number, by))
    return whole, number - by * whole


def split(number: Array, middle: int, last: int) -> tuple[Array, Array, Array]:
    """A number as the place of an entry in an array of three axes."""
    number, third = parted(number, last)
    return *parted(number, middle), third


def block_of(program: Any, size: int) -> Array:
    """The numbers that a program takes."""
    return program * size + jnp.arange(size, dtype=jnp.int32)


def power(number: int, most: int = MOST) -> int:
    """The next power of two, since those are the sizes of blocks."""
    return min(most, max(16, pl.next_power_of_2(number)))
