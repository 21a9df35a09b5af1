"""A client's own saddle function f_i(x, y), known through its oracles.

The model is the primal vector x, which is minimised over; y is the dual vector, maximised over. A
client step is then `gx, gy = f.grads(x, y, key)`, `x - lr * gx`, `y + lr * gy`, as on paper.
"""

import jax
import jax.numpy as jnp

from fedloom.layout import Layout
from fedloom.objective import Oracle
from fedloom.oracles import SaddleOracle
from fedloom.rows import Batch
from fedloom.types import Array, Tree


class SaddleObjective(Oracle):
    """The mean saddle loss over a client's rows, plus the smooth penalty on the model."""

    def zeros_dual(self) -> Array:
        """The zero vector of the dual's size."""
        return jnp.zeros(self._dual.size, self.layout.dtype)

    def grads(self, x: Array, y: Array, key: Array) -> tuple[Array, Array]:
        """Stochastic gradients in x and in y, on the same batch."""
        return self._grads(x, y, self._batch(key))

    def full_grads(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The gradients of f_i in x and in y, over all of the client's rows."""
        return self._grads(x, y, self._everything)

    def value(self, x: Array, y: Array, key: Array) -> Array:
        """A stochastic value: the loss on a batch."""
        return self._value(self.layout.unravel(x), self._dual.unravel(y), self._batch(key))

    def full_value(self, x: Array, y: Array) -> Array:
        """The value f_i(x, y) over all of the client's rows."""
        return self._value(self.layout.unravel(x), self._dual.unravel(y), self._everything)

    def row_grads(self, x: Array, y: Array, places: Array) -> tuple[Array, Array]:
        """The gradients of single rows, by their places at the client: one row of each a place."""

        def of_one(place: Array) -> tuple[Array, Array]:
            return self._grads(x, y, Batch(self.held.at(place[None]), None))

        return jax.vmap(of_one)(places)

    def subgradient(self, x: Array) -> Array:
        """A subgradient of g, with 0 where |.| has its kink."""
        return self.layout.ravel(self.problem.regulariser.subgradient(self.layout.unravel(x)))

    @property
    def _dual(self) -> Layout:
        assert self.layout.dual is not None  # every saddle problem lays out its dual
        return self.layout.dual

    def _value(self, x: Tree, y: Tree, batch: Batch) -> Array:
        losses = self.problem.in_training(batch).saddle_losses(x, y, batch.rows)
        return batch.mean(losses) + self.problem.penalty(x)

    def _grads(self, x: Array, y: Array, batch: Batch) -> tuple[Array, Array]:
        slopes = jax.grad(self._value, argnums=(0, 1))
        gx, gy = slopes(self.layout.unravel(x), self._dual.unravel(y), batch)
        return self.layout.ravel(gx), self._dual.ravel(gy)


_PROMISE: type[SaddleOracle] = SaddleObjective  # what authors are promised, checked by mypy
