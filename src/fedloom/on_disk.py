"""Rows that are not on a device but in files, or in the host's memory.

`OnDisk` is for memory-mapped arrays; only the rows that are asked for are read. What was read stays
in the operating system's cache while there is room, so rows that fit into memory are read from the
disk only once. `OnHost` hands such rows, or those of an array in memory, to a device within its
program.
"""

import mmap
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from numpy.typing import DTypeLike

from fedloom.errors import DataError
from fedloom.pytrees import pytree, static
from fedloom.types import Array

_AT_ONCE = 2**26  # bytes that are read at a time where all rows are wanted
_TOGETHER = 2**27  # bytes of rows that a device looks at together where all rows are looked at
_WHITE = 255  # the largest number of a pixel


class OnDisk:
    """Rows of memory-mapped arrays, in an order, as numbers of one type.

    It has the shape, the length and the type of an array. `x[places]` are some of the rows, which
    stay on the disk; `x.read(places)` are their numbers, and `np.asarray(x)` all of them in memory.
    """

    def __init__(
        self,
        parts: Sequence[np.ndarray],
        *,
        order: np.ndarray | None = None,
        dtype: DTypeLike | None = None,
        pixels: bool = False,
    ):
        """Rows of these arrays.

        Args:
            parts: Memory-mapped arrays with rows of one shape and type, in turn.
            order: Which of the rows, in which order; None: all of them as they are.
            dtype: The type in which numbers are handed out; by default that of the files.
            pixels: Whether numbers from 0 to 255 are handed out as numbers from 0 to 1.
        """
        self.parts, self.order, self.pixels = tuple(parts), order, pixels
        self.dtype = np.dtype(parts[0].dtype if dtype is None else dtype)
        self._ends = np.cumsum([len(part) for part in parts])
        self.shape = (len(self), *parts[0].shape[1:])

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.order is None else len(self.order)

    def __repr__(self) -> str:
        return f"OnDisk({self.dtype}[{', '.join(map(str, self.shape))}])"

    @property
    def ndim(self) -> int:
        """How many axes there are, rows among them."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def row_bytes(self) -> int:
        """What a row takes in memory."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """What all rows would take in memory."""
        return len(self) * self.row_bytes

    def astype(self, dtype: DTypeLike) -> "OnDisk":
        """The same rows, to be handed out as another type."""
        return OnDisk(self.parts, order=self.order, dtype=dtype, pixels=self.pixels)

    def __getitem__(self, places: slice | np.ndarray) -> "OnDisk":
        """Some of the rows, which are not read yet."""
        if isinstance(places, slice) and self.order is None and len(self.parts) == 1:
            return OnDisk([self.parts[0][places]], dtype=self.dtype, pixels=self.pixels)
        if isinstance(places, slice):
            places = np.arange(*places.indices(len(self)))
        order = np.asarray(places) if self.order is None else self.order[places]
        if self._ends[-1] < 2**31:
            order = order.astype(np.int32)
        if np.array_equal(order, np.arange(self._ends[-1])):
            order = None
        return OnDisk(self.parts, order=order, dtype=self.dtype, pixels=self.pixels)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        made = np.empty(self.shape, self.dtype if dtype is None else dtype)
        self.read_into(made, 0)
        return made

    def portions(self) -> Iterator[tuple[int, np.ndarray]]:
        """All rows, some megabytes at a time, each portion with the place of its first row."""
        count = max(1, _AT_ONCE // max(1, self.row_bytes))
        for start in range(0, len(self), count):
            yield start, self.read(np.arange(start, min(start + count, len(self))))

    def read_into(self, made: np.ndarray, begin: int) -> None:
        """Fill an array with the rows from a place on."""
        for start, rows in self[begin : begin + len(made)].portions():
            made[start : start + len(rows)] = rows

    def bounds(self) -> tuple[int | float, int | float]:
        """The smallest and the largest number: all rows are read, once."""
        found = [(rows.min().item(), rows.max().item()) for _, rows in self.portions()]
        return min(least for least, _ in found), max(most for _, most in found)

    def read(self, places: np.ndarray) -> np.ndarray:
        """The rows at these places, in an array of their shape; beyond the end stands the last."""
        flat = np.minimum(np.ravel(places), len(self) - 1)
        if self.order is not None:
            flat = self.order[flat]
        made = np.empty((len(flat), *self.shape[1:]), self.dtype)
        for part, own, inside in self._by_part(flat):
            _ask_for(part, inside)
            rows = part[inside]
            check_fits(rows, self.dtype)
            made[own] = np.divide(rows, _WHITE, dtype=self.dtype) if self.pixels else rows
        self._check(made)
        return made.reshape(*np.shape(places), *self.shape[1:])

    def _check(self, rows: np.ndarray) -> None:
        """Rows are looked at when they are read: all of them beforehand would take too long."""
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            raise DataError(
                "rows on the disk: every feature must be a finite number; some that were read are "
                "not. Fill the gaps in before the file is written."
            )

    def _by_part(
        self, flat: np.ndarray
    ) -> Iterator[tuple[np.ndarray, slice | np.ndarray, np.ndarray]]:
        """The arrays that rows are in, each with their places in the answer and in the array."""
        if len(self.parts) == 1:
            yield self.parts[0], slice(None), flat
            return
        which = np.searchsorted(self._ends, flat, "right")
        for i in np.unique(which).tolist():
            own = np.flatnonzero(which == i)
            yield self.parts[i], own, flat[own] - (self._ends[i] - len(self.parts[i]))


class Kept:
    """An array that is told apart by being itself, as a part of a program's structure."""

    def __init__(self, array: np.ndarray | OnDisk):
        self.array = array

    def read(self, places: Array) -> np.ndarray:
        """The rows at these places, as words of 32 bits where numbers have 64."""
        array, wanted = self.array, np.asarray(places)
        rows = array.read(wanted) if isinstance(array, OnDisk) else array[wanted]
        return rows[..., None].view(np.uint32) if rows.dtype.itemsize == 8 else rows


@pytree
class OnHost:
    """Rows that stay on the host, in its memory or on disk; a device is handed what it asks for."""

    kept: Kept = static()
    clients: int = static()  # that may ask for rows side by side

    @property
    def together(self) -> int:
        """How many rows of each client are looked at together, where all of them are."""
        array = self.kept.array
        row = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
        return max(1, _TOGETHER // max(1, row * self.clients))

    def at(self, places: Array) -> Array:
        """The rows at these places."""
        dtype, row = self.kept.array.dtype, self.kept.array.shape[1:]
        long = dtype.itemsize == 8  # which JAX would cut in the thread that it calls back in
        shape = jax.ShapeDtypeStruct(
            (*places.shape, *row, *[2] * long), np.uint32 if long else dtype
        )
        rows = jax.pure_callback(self.kept.read, shape, places, vmap_method="broadcast_all")
        return jax.lax.bitcast_convert_type(rows, dtype) if long else rows


def check_fits(rows: np.ndarray, dtype: DTypeLike) -> None:
    """Raise DataError where whole numbers would become others in a narrower type."""
    if rows.dtype.kind not in "iu" or np.can_cast(rows.dtype, dtype) or not rows.size:
        return
    if np.dtype(dtype).kind not in "iu":
        return
    bounds, least, most = np.iinfo(dtype), int(rows.min()), int(rows.max())
    if least < bounds.min or most > bounds.max:
        raise DataError(
            f"features and labels that are whole numbers must be from {bounds.min} to "
            f"{bounds.max}; got {most if most > bounds.max else least}. Make floating point "
            f"numbers of them, as with x.astype(float)."
        )


def _ask_for(part: np.ndarray, rows: np.ndarray) -> None:
    """Let the operating system fetch all rows at once, in the place of one after the other.

    Of rows that are on the disk alone, 3200 then took a fifth of the time.
    """
    mapped = getattr(part, "_mmap", None)
    stride = part.strides[0]
    if mapped is None or stride <= 0 or not hasattr(mmap, "MADV_WILLNEED"):
        return
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return  # neighbours are fetched ahead as it is
    begin = part.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    page = mmap.PAGESIZE
    for row in rows.tolist():
        start = begin + row * stride
        first = start - start % page
        mapped.madvise(mmap.MADV_WILLNEED, first, start + stride - first)
