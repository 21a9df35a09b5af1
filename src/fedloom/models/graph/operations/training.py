"""What operations may know while a network is trained, beside their arguments.

A graph is trained row by row: its program is mapped over the rows of a batch, so that a draw or a
mean is of one row wherever PyTorch keeps the axis of the rows. Operations that are otherwise in
training take a `Step` first; in evaluation it is None.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models.dropout import dropped
from fedloom.types import Array

ROWS = "rows of a batch"  # the axis over which a program is mapped


class Step:
    """One row of a batch, while a network is trained on it."""

    def __init__(self, key: Array | None, counts: Array | None, local_norms: bool) -> None:
        self.local_norms = local_norms  # whether batch norms go by the batch's own statistics
        self.terms: list[Array] = []  # whose slopes belong to the loss, as those of statistics do
        self._key = key
        self._counts = counts
        self._draws = 0

    def key(self) -> Array | None:
        """A key for the next draw of the row, or None where nothing is drawn."""
        if self._key is None:
            return None
        self._draws += 1
        return jax.random.fold_in(self._key, self._draws)

    def total(self, values: Array) -> Array:
        """The sum over the rows of the batch that count."""
        own = values if self._counts is None else jnp.where(self._counts, values, 0)
        return jax.lax.psum(own, ROWS)


def thinned(step: Step | None, x: Array, rate: float) -> Array:
    """X after a dropout; as it is in evaluation."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise DataError(f"the share that a dropout drops must be from 0 to 1; got {rate!r}.")
    key = None if step is None or rate == 0 else step.key()
    return x if key is None else dropped(x, rate, key)


def evaluated(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation as in evaluation, whose parameters are those of ATen alone."""
    return functools.partial(operation, None)
