"""A client's own function f_i, known through its oracles.

A client method never sees data. It gets `f`, and writes `w - lr * f.grad(w, key)` as on paper. The
batch size belongs to the run, not to the method, so that all methods of a comparison see the same
batches: the same key gives the same batch.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.layout import Layout
from fedloom.oracles import SmoothOracle
from fedloom.rows import Batch, ClientRows
from fedloom.types import Array, Scalar, Tree


class Oracle:
    """The base of all oracles: the rows and their batches, the model's size, and g."""

    def __init__(self, problem: Any, layout: Layout, held: ClientRows, batch_size: int | None):
        self.problem = problem
        self.layout = layout
        self.held = held
        self.batch_size = batch_size
        # Made here so that it stays outside of a method's local loop; where no oracle needs it,
        # the compiler drops it.
        self._everything = held.everything()

    def zeros(self) -> Array:
        """The zero vector of the model's size."""
        return jnp.zeros(self.layout.size, self.layout.dtype)

    def prox(self, v: Array, step: Scalar) -> Array:
        """The proximal map of step * g, with g the regulariser that all clients know."""
        return prox(self.problem.regulariser, self.layout, v, step)

    @property
    def size(self) -> Array:
        """How many rows the client has."""
        return self.held.size

    @property
    def batches(self) -> Array | int:
        """How many batches make one pass over the client's rows."""
        if self.batch_size is None:
            return 1
        if self.held.shortest == self.held.longest:
            return -(-self.held.longest // self.batch_size)
        return -(-self.size // np.int32(self.batch_size))

    def _batch(self, key: Array) -> Batch:
        size = self.batch_size
        batch = self._everything if size is None else self.held.draw(key, size)
        return self.problem.augmented(batch, key)._replace(key=key)


class Objective(Oracle):
    """The mean loss f_i over a client's rows, plus the smooth penalty of the problem."""

    def value(self, w: Array, key: Array) -> Array:
        """The loss on a random batch.

        Args:
            w: The model.
            key: By which the batch is drawn: the same key gives the same batch.
        """
        return self._value(self.layout.unravel(w), self._batch(key))

    def grad(self, w: Array, key: Array) -> Array:
        """The gradient of the loss on a random batch.

        Args:
            w: The model.
            key: By which the batch is drawn: the same key gives the same batch.
        """
        return self._grad(w, self._batch(key))

    def value_and_grad(self, w: Array, key: Array) -> tuple[Array, Array]:
        """The loss and its gradient on the same random batch."""
        value, grad = jax.value_and_grad(self._value)(self.layout.unravel(w), self._batch(key))
        return value, self.layout.ravel(grad)

    def full_value(self, w: Array) -> Array:
        """The value f_i(w) over all of the client's rows."""
        return self._value(self.layout.unravel(w), self._everything)

    def full_grad(self, w: Array) -> Array:
        """The gradient of f_i over all of the client's rows."""
        return self._grad(w, self._everything)

    def _value(self, model: Tree, batch: Batch) -> Array:
        losses = self.problem.in_training(batch).losses(model, batch.rows)
        return batch.mean(losses) + self.problem.penalty(model)

    def _grad(self, w: Array, batch: Batch) -> Array:
        # Differentiating by the arrays and joining the result once is cheaper than differentiating
        # through the split of the vector.
        return self.layout.ravel(jax.grad(self._value)(self.layout.unravel(w), batch))


def prox(regulariser: Any, layout: Layout, v: Array, step: Scalar) -> Array:
    """The proximal map of step * g on a vector."""
    return layout.ravel(regulariser.prox(layout.unravel(v), jnp.asarray(step, v.dtype)))


_PROMISE: type[SmoothOracle] = Objective  # what authors are promised, checked by mypy
