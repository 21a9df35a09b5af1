"""A party's block of features A as an operator: A x and A'y, dense or sparse.

A dense block is kept with its features as rows, so that both products read it in order. A sparse
one is kept twice, by rows and by columns, because a sum of gathered numbers is quick where adding
numbers into scattered places is not. By rows, of which there are many short and a few long ones,
those of about one length stand together and are padded to the longest of them. By columns, which
are few and long, a column is cut into chunks of one size, and the few sums of chunks are added up
at the end.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.lazy import public
from fedloom.pytrees import pytree, static
from fedloom.types import Array, Held

__all__ = ["Block", "Dense", "Sparse", "block"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


_CHUNK = 64  # entries of a column that are summed together
_DENSE_FROM = 0.05  # share of nonzeros above which dense products are quicker
# A GPU reads in order so much faster than it gathers that this goes further down there.
_DENSE_FROM_ON_GPU, _LARGEST_ON_GPU = 0.005, 2**30  # bytes
_UNROLL = 8


@pytree
class Dense:
    """A block that keeps all its numbers."""

    features: Held  # (d, s): one row for each feature

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of features, (s, d)."""
        return self.features.shape[1], self.features.shape[0]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the numbers."""
        return self.features.dtype

    def forward(self, x: Array) -> Array:
        """The product A x, of a vector (d,) or of a matrix (d, k)."""
        return jnp.tensordot(jnp.asarray(self.features), x, (0, 0))

    def adjoint(self, y: Array) -> Array:
        """The product A'y."""
        return jnp.tensordot(jnp.asarray(self.features), y, 1)

    def some_of_forward(self, rows: Array, x: Array) -> Array:
        """Some entries of A x, at the cost of these entries."""
        return jnp.tensordot(jnp.asarray(self.features)[:, rows], x, (0, 0))

    def some_of_adjoint(self, columns: Array, y: Array) -> Array:
        """Some entries of A'y, at the cost of these entries."""
        return jnp.tensordot(jnp.asarray(self.features)[columns], y, 1)

    def some_rows(self, rows: Array | slice) -> "Dense":
        """These rows alone."""
        return Dense(jnp.asarray(self.features)[:, rows])

    def gram(self) -> Array:
        """The matrix A'A."""
        return self.adjoint(self.matrix())

    def matrix(self) -> Array:
        """The block as a dense matrix (s, d)."""
        return jnp.asarray(self.features).T


@pytree
class Sparse:
    """A block that keeps its nonzeros only; a padding entry has the value 0."""

    buckets: tuple["Bucket", ...]  # of rows that are not empty, by their lengths
    row_order: Held  # (s,): where a row stands, after all empty ones, bucket by bucket
    chunk_places: Held  # (chunks, _CHUNK): which row
    chunk_values: Held
    chunk_columns: Held  # (chunks,): which feature a chunk belongs to, ascending
    width: int = static()

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of features, (s, d)."""
        return self.row_order.shape[0], self.width

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the numbers."""
        return self.chunk_values.dtype

    def forward(self, x: Array) -> Array:
        """The product A x, of a vector (d,) or of a matrix (d, k)."""
        sums = [bucket.forward(x) for bucket in self.buckets]
        empty = self.shape[0] - sum(map(len, sums))
        dtype = jnp.result_type(x, self.dtype)
        sums = [jnp.zeros((empty, *x.shape[1:]), dtype), *sums]
        return _gather(jnp.concatenate(sums), self.row_order)

    def adjoint(self, y: Array) -> Array:
        """The product A'y."""
        sums = _times(jnp.asarray(self.chunk_values), _gather(y, self.chunk_places)).sum(1)
        return jax.ops.segment_sum(
            sums, jnp.asarray(self.chunk_columns), self.width, indices_are_sorted=True
        )

    def some_of_forward(self, rows: Array, x: Array) -> Array:
        """Some entries of A x, picked from all of them: rows have no equal lengths."""
        return self.forward(x)[rows]

    def some_of_adjoint(self, columns: Array, y: Array) -> Array:
        """Some entries of A'y, picked from all of them: chunks do not tell columns apart."""
        return self.adjoint(y)[columns]

    def some_rows(self, rows: Array | slice) -> "Block":
        """These rows alone, picked by products: rows have no equal lengths."""
        if isinstance(rows, slice):  # all of them
            return self
        return Dense(self.adjoint(jax.nn.one_hot(rows, self.shape[0], axis=0, dtype=self.dtype)))

    def gram(self) -> Array:
        """The matrix A'A, column by column: all at once would take a dense block."""
        units = jnp.eye(self.width, dtype=self.dtype)
        return jax.lax.map(lambda unit: self.adjoint(self.forward(unit)), units)

    def matrix(self) -> Array:
        """The block as a dense matrix (s, d), for what cannot do without, such as a network."""
        return self.forward(jnp.eye(self.width, dtype=self.dtype))


@pytree
class Bucket:
    """Rows of about one length."""

    places: Held  # (the longest of them, rows): which feature
    values: Held

    def forward(self, x: Array) -> Array:
        """The products of these rows with x."""

        def add(total: Array, entry: "Bucket") -> tuple[Array, None]:
            return total + _times(entry.values, _gather(x, entry.places)), None

        shape = (self.values.shape[1], *x.shape[1:])
        nothing = jnp.zeros(shape, jnp.result_type(x, self.values.dtype))
        return jax.lax.scan(add, nothing, jax.tree.map(jnp.asarray, self), unroll=_UNROLL)[0]


Block = Dense | Sparse  # what `block` returns


def block(matrix: Any, dtype: str) -> Block:
    """Lay out a matrix for both products: `Dense`, or `Sparse` if most entries are zero.

    Args:
        matrix: An array or a scipy sparse array of shape (s, d).
        dtype: Of the numbers, such as "float32".
    """
    from scipy.sparse import csr_array, issparse

    rows, width = matrix.shape
    if not issparse(matrix):
        return Dense(np.ascontiguousarray(np.asarray(matrix, dtype).T))
    nonzeros = csr_array(matrix).astype(dtype)
    nonzeros.sum_duplicates()
    share = _DENSE_FROM
    if jax.default_backend() == "gpu" and rows * width * nonzeros.dtype.itemsize < _LARGEST_ON_GPU:
        share = _DENSE_FROM_ON_GPU
    if nonzeros.nnz >= share * rows * width:
        return Dense(np.ascontiguousarray(nonzeros.toarray().T))
    return Sparse(*_by_rows(nonzeros), *_by_chunks(nonzeros.tocsc()), width)


def _by_rows(matrix: Any) -> tuple[tuple[Bucket, ...], np.ndarray]:
    """Rows of 1, 2, 3 to 4, 5 to 8, ... nonzeros, so that less than half is padding."""
    lengths = np.diff(matrix.indptr)
    kinds = np.where(lengths > 0, 1 + np.ceil(np.log2(np.maximum(lengths, 1))), 0)
    members = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
    order = np.empty(len(lengths), np.int32)
    order[np.concatenate(members)] = np.arange(len(lengths))
    return tuple(_bucket(matrix[rows]) for rows in members if lengths[rows].any()), order


def _bucket(matrix: Any) -> Bucket:
    counts = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    slot = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    shape = (int(counts.max()), len(counts))
    places, values = np.zeros(shape, np.int32), np.zeros(shape, matrix.dtype)
    places[slot, row], values[slot, row] = matrix.indices, matrix.data
    return Bucket(places, values)


def _by_chunks(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = np.diff(matrix.indptr)
    chunks = np.maximum(1, -(-counts // _CHUNK))
    first = np.cumsum(chunks) - chunks
    slot = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    chunk = np.repeat(first, counts) + slot // _CHUNK
    shape = (int(chunks.sum()), _CHUNK)
    places, values = np.zeros(shape, np.int32), np.zeros(shape, matrix.dtype)
    places[chunk, slot % _CHUNK], values[chunk, slot % _CHUNK] = matrix.indices, matrix.data
    return places, values, np.repeat(np.arange(len(counts), dtype=np.int32), chunks)


def _gather(vector: Array, places: Held) -> Array:
    return jnp.asarray(vector).at[jnp.asarray(places)].get(mode="promise_in_bounds")


def _times(values: Held, gathered: Array) -> Array:
    return gathered * values.reshape(*values.shape, *[1] * (gathered.ndim - values.ndim))
