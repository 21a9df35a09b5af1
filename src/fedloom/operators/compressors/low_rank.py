"""A compressor that sends two thin factors of a matrix."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.operators.compressors.base import Biased, Shaped
from fedloom.parameters import at_least, param, parametrised
from fedloom.types import Array


class Factors(NamedTuple):
    """A matrix of low rank as the product left right'."""

    left: Array
    right: Array


@parametrised
class LowRank(Biased):
    """The vector as a near-square matrix, projected on a random subspace of its columns' span.

    One step of the subspace iteration, as in PowerSGD (Vogels et al. 2019).
    """

    rank: int = param(at_least(1), "the rank", default=2)

    def _sides(self, like: Shaped) -> tuple[int, int]:
        size = math.prod(like.shape)
        rows = max(1, math.isqrt(size))
        return rows, -(-size // rows)

    def _rank(self, like: Shaped) -> int:
        return min(self.rank, *self._sides(like))

    def compress(self, v: Array, key: Array) -> Factors:
        """An orthonormal basis, and the coefficients in it."""
        rows, columns = self._sides(v)
        matrix = jnp.pad(v.reshape(-1), (0, rows * columns - v.size)).reshape(rows, columns)
        sketch = matrix @ jax.random.normal(key, (columns, self._rank(v)), v.dtype)
        basis, _ = jnp.linalg.qr(sketch)
        return Factors(basis, matrix.T @ basis)

    def restore(self, message: Factors, like: Shaped, key: Array | None = None) -> Array:
        """The product of the two factors, as an array of the shape of `like`."""
        size = math.prod(like.shape)
        return (message.left @ message.right.T).reshape(-1)[:size].reshape(like.shape)

    def delta(self, like: Shaped) -> float:
        """The smaller side over the rank: what a matrix of equal singular values loses."""
        return min(self._sides(like)) / self._rank(like)
