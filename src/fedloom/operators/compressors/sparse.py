"""Compressors that keep some of the entries."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.errors import ParameterError
from fedloom.operators.compressors.base import Biased, Shaped, Unbiased
from fedloom.parameters import Rule, flag, param, parametrised
from fedloom.types import Array

PER_CENT = Rule(
    lambda v: isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= 100,
    "a whole number from 1 to 100",
    10,
)


class Sample(NamedTuple):
    """Some entries, and the key that says which."""

    values: Array
    seed: Array  # two 32-bit words


@parametrised
class RandK(Unbiased):
    """K entries at random without replacement, times s / K; K = ceil(per_cent of s)."""

    per_cent: int = param(PER_CENT, "per cent of the entries that are kept")
    shared: bool = param(
        flag, "whether sender and receiver, and all senders, draw the same places", default=True
    )

    def count(self, like: Shaped) -> int:
        """How many entries are kept, K."""
        return math.ceil(self.per_cent * math.prod(like.shape) / 100)

    def places(self, like: Shaped, key: Array) -> Array:
        """Which entries are kept, drawn with `key`."""
        return draws.distinct(key, draws.domain(math.prod(like.shape)), self.count(like))

    def compress(self, v: Array, key: Array) -> Array | Sample:
        """K values; without a shared key also the seed from which their places are drawn."""
        values = v.reshape(-1)[self.places(v, key)] * (v.size / self.count(v))
        return values if self.shared else Sample(values, jax.random.key_data(key))

    def restore(self, message: Array | Sample, like: Shaped, key: Array | None = None) -> Array:
        """The kept values at their places, and zeros elsewhere."""
        values = message
        if isinstance(message, Sample):
            values, key = message.values, jax.random.wrap_key_data(message.seed, impl=draws.IMPL)
        if key is None:
            raise ParameterError(
                "RandK.restore needs the key of compress where it is shared; got none. Pass it."
            )
        flat = jnp.zeros(math.prod(like.shape), like.dtype)
        return flat.at[self.places(like, key)].set(values).reshape(like.shape)

    def omega(self, like: Shaped) -> float:
        """The number of entries over the number kept, s / K."""
        return math.prod(like.shape) / self.count(like)


class Entries(NamedTuple):
    """Some entries and their places."""

    values: Array
    places: Array


@parametrised
class TopK(Biased):
    """The K entries of largest size; K = ceil(per_cent of s)."""

    per_cent: int = param(PER_CENT, "per cent of the entries that are kept")

    def count(self, like: Shaped) -> int:
        """How many entries are kept, K."""
        return math.ceil(self.per_cent * math.prod(like.shape) / 100)

    def compress(self, v: Array, key: Array) -> Entries:
        """K values and their places."""
        flat = v.reshape(-1)
        places = _largest(jnp.abs(flat), self.count(v))
        return Entries(flat[places], places)

    def restore(self, message: Entries, like: Shaped, key: Array | None = None) -> Array:
        """The kept values at their places, and zeros elsewhere."""
        flat = jnp.zeros(math.prod(like.shape), like.dtype)
        return flat.at[message.places].set(message.values).reshape(like.shape)

    def delta(self, like: Shaped) -> float:
        """The number of entries over the number kept, s / K."""
        return math.prod(like.shape) / self.count(like)


def _largest(sizes: Array, count: int) -> Array:
    """The places of the largest of some numbers >= 0, ascending; of equal ones the first.

    The bits of such numbers are in their order, and whole numbers are sorted several times as fast.
    """
    bits = jax.lax.bitcast_convert_type(sizes, f"int{8 * sizes.dtype.itemsize}")
    least = jax.lax.sort(bits, is_stable=False)[-count]
    ties, above = bits == least, bits > least
    kept = above | (ties & (jnp.cumsum(ties) <= count - above.sum()))
    return jnp.nonzero(kept, size=count)[0].astype(np.int32)
