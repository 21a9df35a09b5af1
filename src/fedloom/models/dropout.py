"""Dropout whose draws come from the key of a batch: the same on every engine, off in evaluation.

Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov. Dropout: A Simple Way to Prevent Neural
Networks from Overfitting. JMLR 2014.

What a row loses depends on the batch's key, on the number of the dropout in the network and on the
row's place in the batch, and not on how many rows there are: a site pads its batches to another
length than the simulator.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.parameters import Rule, param
from fedloom.types import Array

_FROM_THE_BATCHS_KEY = 0x44524F50  # apart from all that methods and wrappers draw with it
_WORDS = 2**32

_rate = Rule(
    lambda v: isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 1,
    "a number >= 0 and < 1",
    0.1,
    {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
)


def dropout_param(where: str) -> Any:
    """The field for the share of numbers that are dropped in training.

    Args:
        where: Which numbers they are.
    """
    return param(_rate, f"share of {where} that training drops", default=0.0, static=True)


def row_keys(key: Array, rows: int) -> Array:
    """A key for each row of a batch that was drawn by `key`."""
    own = jax.random.fold_in(key, _FROM_THE_BATCHS_KEY)
    return jax.vmap(lambda place: draws.nth(own, place))(jnp.arange(rows))


def kept(key: Array, rate: float, shape: tuple[int, ...]) -> Array:
    """Which numbers stay, each with the chance 1 - rate; the same in all precisions."""
    if rate >= 1:
        return jnp.zeros(shape, bool)
    return jax.random.bits(key, shape, np.uint32) >= np.uint32(rate * _WORDS)


def dropped(x: Array, rate: float, key: Array) -> Array:
    """Zeros in the place of some numbers, and the others larger by 1 / (1 - rate)."""
    return jnp.where(kept(key, rate, x.shape), x / max(1 - rate, 1 / _WORDS), 0)


def drop(x: Array, rate: float, keys: Array | None, number: int) -> Array:
    """The rows x after a dropout of a network.

    Args:
        x: One entry of the first axis for each row.
        rate: The share that is dropped.
        keys: Of the rows, by `row_keys`; None: x as it is.
        number: Of the dropout in the network.
    """
    if keys is None:
        return x

    def row(values: Array, key: Array) -> Array:
        return dropped(values, rate, jax.random.fold_in(key, number))

    return jax.vmap(row)(x, keys)


def keys_of(rate: float, key: Array | None, rows: int) -> Array | None:
    """The keys of the rows of a batch, or None where nothing is drawn.

    Args:
        rate: The share that is dropped.
        key: By which the batch was drawn; None draws nothing.
        rows: How many there are.
    """
    return None if key is None or rate == 0 else row_keys(key, rows)
