"""The rows of all clients in shared flat arrays: where each client's begin, and how to draw."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedloom import draws
from fedloom.draws import Domain
from fedloom.errors import ParameterError
from fedloom.on_disk import Kept, OnDisk, OnHost
from fedloom.pytrees import in_short, pytree, static
from fedloom.types import Array, Held, Tree

ALIGNED = 64  # bytes, of which the address of an array is a multiple
_SOME = 1 << 16  # numbers that are looked at together: most arrays that do not fit end at once


class Rows(NamedTuple):
    """Samples: features and labels, row by row."""

    x: Held
    y: Held

    def __repr__(self) -> str:
        return f"Rows(x={in_short(self.x)}, y={in_short(self.y)})"  # no data in a notebook


def all_finite(values: Any) -> bool:
    """Whether every number of an array, dense or sparse, is finite; whole numbers always are.

    Rows on the disk are looked at when they are read.
    """
    if isinstance(values, OnDisk):
        return True
    values = values.data if hasattr(values, "toarray") else np.asarray(values)
    # A sum is finite if all parts are, up to an overflow, which the second look tells apart.
    if values.dtype.kind != "f" or values.size == 0:
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


class Spec(NamedTuple):
    """What is needed to build a model for the data."""

    features: tuple[int, ...]  # the shape of one row of x
    classes: int  # 0 for a regression
    dtype: str


class Drawn(NamedTuple):
    """What a network may know about a batch beside its rows, in training."""

    key: Array | None  # by which the rows were drawn; None: nothing is drawn, as over all rows
    counts: Array | None  # (b,) False marks padding; None: every row counts


def some_rows(key: Array, total: int, count: int | None) -> Array | slice:
    """Which `count` of `total` rows a key draws, without replacement; all if there are no more."""
    if count is None or count >= total:
        return slice(None)
    return draws.distinct(key, draws.domain(total), count)


class Batch(NamedTuple):
    """Some rows of one client, and which of them count."""

    rows: Rows
    counts: Array | None  # (b,) False marks padding; None: every row counts
    key: Array | None = None  # by which they were drawn

    @property
    def drawn(self) -> Drawn:
        """The key by which the rows were drawn, and which of them count."""
        return Drawn(self.key, self.counts)

    def mean(self, values: Array) -> Array:
        """The mean over the rows that count."""
        if self.counts is None:
            return values.mean()
        return jnp.where(self.counts, values, 0).sum() / self.counts.sum()


@pytree
class Narrow:
    """Rows of small whole numbers, stored as one byte each and handed out in the run's type."""

    kept: Held  # int8
    dtype: str = static()

    def __repr__(self) -> str:
        return f"Narrow({in_short(self.kept)}, {self.dtype})"


@pytree
class ClientRows:
    """One client's part of flat arrays."""

    rows: Rows  # the rows of all clients, one client after the other; x may be Narrow or OnHost
    offset: Held  # where this client's rows begin
    domain: Domain  # how many it has, laid out for drawing
    shortest: int = static()  # over all clients
    longest: int = static()

    @property
    def size(self) -> Array:
        """How many rows the client has."""
        return jnp.asarray(self.domain.size).astype(np.int32)

    def draw(self, key: Array, count: int) -> Batch:
        """`count` of the client's rows without replacement, or all of them if it has fewer."""
        count = min(count, self.longest)
        return Batch(self.at(draws.distinct(key, self.domain, count)), self._within(count))

    def at(self, places: Array) -> Rows:
        """The client's rows at these places."""
        absolute = jnp.asarray(self.offset) + places

        def taken(array: Held | OnHost | Narrow) -> Array:
            if isinstance(array, Narrow):
                return taken(array.kept).astype(array.dtype)
            if isinstance(array, OnHost):
                return array.at(absolute)
            return jnp.asarray(array).at[absolute].get(mode="promise_in_bounds")

        return Rows(taken(self.rows.x), taken(self.rows.y))

    def everything(self) -> Batch:
        """All of the client's rows, padded to the longest client's number."""

        def part(array: Held | OnHost | Narrow) -> Array:
            if isinstance(array, Narrow):
                return part(array.kept).astype(array.dtype)
            if isinstance(array, OnHost):
                own = jnp.minimum(jnp.arange(self.longest), self.size - 1)
                return array.at(jnp.asarray(self.offset) + own)
            return jax.lax.dynamic_slice_in_dim(array, self.offset, self.longest)

        return Batch(Rows(part(self.rows.x), part(self.rows.y)), self._within(self.longest))

    def each(self, function: Callable[[Rows], Tree]) -> Tree:
        """What a function of rows makes of each of the client's, padded as `everything` is.

        Rows that lie on the host are handed to it some at a time.
        """
        x: Any = self.rows.x
        if not isinstance(x, OnHost) or x.together >= self.longest:
            return function(self.everything().rows)

        def some(start: Array) -> Tree:
            return function(self.at(jnp.minimum(start + jnp.arange(x.together), self.size - 1)))

        parts = jax.lax.map(some, jnp.arange(0, self.longest, x.together))
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[: self.longest], parts)

    def mean(self, values: Array) -> Array:
        """The mean over the client's rows of a number for each, padded as `everything` is."""
        if values.shape != (self.longest,):  # padding could not be told from rows
            raise ParameterError(
                f"a metric of rows must be one number for each row, of shape ({self.longest},); "
                f"got the shape {values.shape}. Take no mean over rows, or write of='scores' for "
                f"one number of all scores and labels."
            )
        return Batch(self.rows, self._within(self.longest)).mean(values)

    def _within(self, count: int) -> Array | None:
        return None if count <= self.shortest else jnp.arange(count) < self.size


@pytree
class Store:
    """The rows of a group of clients: one flat array, with an offset and a size for each."""

    rows: Rows
    offsets: Held  # (k,)
    domains: Domain  # (k,)
    shortest: int = static()
    longest: int = static()
    # Clients whose rows a device has; 0: those of all (divided_rows).
    each: int = static(default=0, repr=False)

    def streamed(self) -> "Store":
        """The same with features that stay on the host, for a device that cannot hold them."""
        if isinstance(self.rows.x, OnHost):
            return self
        kept: Any = OnHost(Kept(np.asarray(self.rows.x)), len(self.sizes))
        return dataclasses.replace(self, rows=Rows(kept, self.rows.y))

    def client(self, index: Array | int) -> ClientRows:
        """What belongs to one client of the group."""
        domain = Domain(*(jnp.asarray(entry)[index] for entry in self.domains))
        return ClientRows(
            self.rows, jnp.asarray(self.offsets)[index], domain, self.shortest, self.longest
        )

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each client has."""
        return np.asarray(self.domains.size, np.int64)


def store(rows: Rows, sizes: np.ndarray, offsets: np.ndarray | None = None) -> Store:
    """Lay out flat rows that belong to clients of these sizes, by default one after the other."""
    sizes = np.asarray(sizes, np.int64)
    if offsets is None:
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    longest = int(sizes.max(initial=1))
    # A slice of the longest client's length must stay inside the array for every client.
    padding = max(0, int((offsets + longest).max(initial=0)) - len(rows.x))
    x: Any = rows.x
    held: Any = OnHost(Kept(x), len(sizes)) if isinstance(x, OnDisk) else _pad(x, padding)
    return Store(
        Rows(held, _pad(np.asarray(rows.y), padding)),
        np.asarray(offsets, np.int32),
        draws.domain(sizes),
        int(sizes.min(initial=longest)),
        longest,
    )


def narrowed(array: np.ndarray) -> Any:
    """The array with one byte for each number, if no bit is lost by that; otherwise itself.

    Binary features, counts and symbols often fit. Drawing batches is mostly reading rows, and this
    leaves a quarter of the bytes to read.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = f"u{flat.dtype.itemsize}"
    kept = np.empty(flat.shape, np.int8)
    with np.errstate(invalid="ignore"):  # of what is beyond a byte
        for start in range(0, len(flat), _SOME):
            part = flat[start : start + _SOME]
            kept[start : start + _SOME] = part
            back = kept[start : start + _SOME].astype(flat.dtype)
            if not np.array_equal(back.view(bits), part.view(bits)):  # 0 and -0 are different
                return array
    return Narrow(kept.reshape(array.shape), str(array.dtype))


def room_for(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Zeros, aligned in memory so that JAX on a CPU takes the array without a copy."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNED, np.uint8)
    begin = -raw.ctypes.data % ALIGNED
    return raw[begin : begin + size].view(dtype).reshape(shape)


def _pad(array: np.ndarray, rows: int) -> np.ndarray:
    if rows == 0:
        return array
    return np.concatenate([array, np.zeros((rows, *array.shape[1:]), array.dtype)])
