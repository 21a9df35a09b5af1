"""A party's block of features A as an operator: A x and A'y, dense or sparse.

A dense block is kept with its features as rows, so that both products read it in order. A sparse
one is kept twice, by rows and by columns, because a sum of gathered numbers is quick where adding
numbers into scattered places is not. By rows, every row is padded to the longest; by columns, which
may be of very unequal length, a column is cut into chunks of one size, and the few sums of chunks
are added up at the end.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
_CHUNK = 64  # entries of a column that are summed together
_DENSE_FROM = 0.05  # share of nonzeros above which dense products are quicker
_UNROLL = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Dense:
    """A block with all its numbers."""

    features: Array  # (d, s): one row for each feature

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.features.shape[1], self.features.shape[0]

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return self.features.dtype

    def forward(self, x: Array) -> Array:
        """The product A x, for a vector or the columns of a matrix."""
        return jnp.tensordot(jnp.asarray(self.features), x, (0, 0))

    def adjoint(self, y: Array) -> Array:
        """The product A'y."""
        return jnp.tensordot(jnp.asarray(self.features), y, 1)

    def some_rows(self, rows: Array) -> "Dense":
        """The block of some of the rows."""
        return Dense(jnp.asarray(self.features)[:, rows])

    def some_of_adjoint(self, columns: Array, y: Array) -> Array:
        """Some entries of A'y, at the cost of these entries."""
        return jnp.tensordot(jnp.asarray(self.features)[columns], y, 1)

    def matrix(self) -> Array:
        """The numbers, one row of the data after the other."""
        return jnp.asarray(self.features).T


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sparse:
    """A block with its nonzeros only; a padding entry has the value 0."""

    row_places: Array  # (longest row, s): which feature
    row_values: Array
    chunk_places: Array  # (chunks, _CHUNK): which row
    chunk_values: Array
    chunk_columns: Array  # (chunks,): which feature a chunk belongs to, ascending
    width: int = dataclasses.field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.row_places.shape[1], self.width

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return self.row_values.dtype

    def forward(self, x: Array) -> Array:
        """The product A x, for a vector or the columns of a matrix."""

        def add(total: Array, entry: tuple[Array, Array]) -> tuple[Array, None]:
            places, values = entry
            return total + _times(values, _gather(x, places)), None

        nothing = jnp.zeros((self.shape[0], *x.shape[1:]), jnp.result_type(x, self.dtype))
        entries = (jnp.asarray(self.row_places), jnp.asarray(self.row_values))
        return jax.lax.scan(add, nothing, entries, unroll=_UNROLL)[0]

    def adjoint(self, y: Array) -> Array:
        """The product A'y."""
        sums = _times(jnp.asarray(self.chunk_values), _gather(y, self.chunk_places)).sum(1)
        return jax.ops.segment_sum(
            sums, jnp.asarray(self.chunk_columns), self.width, indices_are_sorted=True
        )

    def some_rows(self, rows: Array) -> "Sparse":
        """The block of some of the rows, for `forward` only."""
        places, values = jnp.asarray(self.row_places), jnp.asarray(self.row_values)
        return dataclasses.replace(self, row_places=places[:, rows], row_values=values[:, rows])

    def some_of_adjoint(self, columns: Array, y: Array) -> Array:
        """Some entries of A'y, picked from all of them: chunks do not tell columns apart."""
        return self.adjoint(y)[columns]

    def matrix(self) -> Array:
        """The numbers with all zeros: only for what needs them so, such as a network."""
        return self.forward(jnp.eye(self.width, dtype=self.dtype))


Block = Dense | Sparse


def block(matrix: Any, dtype: str) -> Block:
    """Lay out an array or a scipy sparse array of shape (s, d) for both products."""
    from scipy.sparse import csr_array, issparse

    rows, width = matrix.shape
    if not issparse(matrix):
        return Dense(np.ascontiguousarray(np.asarray(matrix, dtype).T))
    nonzeros = csr_array(matrix).astype(dtype)
    nonzeros.sum_duplicates()
    if nonzeros.nnz >= _DENSE_FROM * rows * width:
        return Dense(np.ascontiguousarray(nonzeros.toarray().T))
    row_places, row_values = _by_rows(nonzeros)
    return Sparse(row_places, row_values, *_by_chunks(nonzeros.tocsc()), width)


def _by_rows(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    counts = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    slot = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    shape = (max(1, int(counts.max(initial=0))), len(counts))
    places, values = np.zeros(shape, np.int32), np.zeros(shape, matrix.dtype)
    places[slot, row], values[slot, row] = matrix.indices, matrix.data
    return places, values


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


def _gather(vector: Array, places: Array) -> Array:
    return jnp.asarray(vector).at[jnp.asarray(places)].get(mode="promise_in_bounds")


def _times(values: Array, gathered: Array) -> Array:
    return gathered * values.reshape(*values.shape, *[1] * (gathered.ndim - values.ndim))
