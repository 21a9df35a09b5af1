"""Compressors: how a vector becomes fewer bytes, and a vector again at the other end.

`compress(v, key)` returns the arrays that travel, and `restore(message, like, key)` what the
receiver makes of them, so bytes are counted from what is really sent. An unbiased compressor Q
declares `omega`, with E Q(v) = v and E|Q(v)|^2 <= omega |v|^2; a biased one C declares `delta`,
with E|C(v) - v|^2 <= (1 - 1/delta) |v|^2. Where both ends draw from a common key (`shared`), places
need not be sent.
"""

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.parameters import Rule, at_least, flag, param, parametrised
from fedloom.protocol import payload_bytes

__all__ = [
    "Biased",
    "Compressor",
    "Identity",
    "LowRank",
    "Natural",
    "RandK",
    "RandomRounding",
    "TopK",
    "Unbiased",
]

Array = Any
Message = Any
PER_CENT = Rule(
    lambda v: isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= 100,
    "a whole number from 1 to 100",
    10,
)


class Compressor:
    """Base of the compressors; vectors of any shape."""

    __parametrised__: ClassVar[bool] = True
    shared: bool = False  # whether `restore` must be given the key of `compress`
    exact: ClassVar[bool] = False  # whether nothing is lost

    def compress(self, v: Array, key: Array) -> Message:
        """The arrays that travel."""
        raise NotImplementedError

    def restore(self, message: Message, like: Any, key: Array | None = None) -> Array:
        """The vector that the receiver reads, of the shape and dtype of `like`."""
        raise NotImplementedError

    def wire_bytes(self, like: Any) -> int:
        """How many bytes a vector takes on the wire."""
        return payload_bytes(jax.eval_shape(self.compress, like, draws.key(0)))

    def portion(self, like: Any) -> float:
        """The bytes on the wire as a part of the vector's own, at most all of them."""
        return min(1.0, self.wire_bytes(like) / payload_bytes(like))


class Unbiased(Compressor):
    """E Q(v) = v."""

    def omega(self, like: Any) -> float:
        """E|Q(v)|^2 <= omega |v|^2."""
        raise NotImplementedError


class Biased(Compressor):
    """Closer to v than nothing, but not v on average: to be used with error feedback."""

    def delta(self, like: Any) -> float:
        """E|C(v) - v|^2 <= (1 - 1/delta) |v|^2."""
        raise NotImplementedError


@parametrised
class Identity(Unbiased):
    """The vector as it is."""

    exact: ClassVar[bool] = True

    def compress(self, v: Array, key: Array) -> Array:
        """All of it."""
        return v

    def restore(self, message: Array, like: Any, key: Array | None = None) -> Array:
        """All of it."""
        return message

    def omega(self, like: Any) -> float:
        """One."""
        return 1.0


class Sample(NamedTuple):
    """Some entries, and the key that says which."""

    values: Array
    seed: Array  # two 32-bit words


@parametrised
class RandK(Unbiased):
    """K entries at random without replacement, times s / K; K = ceil(per_cent of s)."""

    per_cent: int = param(PER_CENT, "how many entries in a hundred are kept")
    shared: bool = param(flag, "whether both ends, and all senders, draw alike", default=True)

    def count(self, like: Any) -> int:
        """The number K."""
        return math.ceil(self.per_cent * math.prod(like.shape) / 100)

    def places(self, like: Any, key: Array) -> Array:
        """Which entries a key stands for."""
        return draws.distinct(key, draws.domain(math.prod(like.shape)), self.count(like))

    def compress(self, v: Array, key: Array) -> Array | Sample:
        """K values; without a shared key also the seed of their places."""
        values = v.reshape(-1)[self.places(v, key)] * (v.size / self.count(v))
        return values if self.shared else Sample(values, jax.random.key_data(key))

    def restore(self, message: Array | Sample, like: Any, key: Array | None = None) -> Array:
        """Zeros but at the places."""
        values = message
        if isinstance(message, Sample):
            values, key = message.values, jax.random.wrap_key_data(message.seed, impl=draws.IMPL)
        flat = jnp.zeros(math.prod(like.shape), like.dtype)
        return flat.at[self.places(like, key)].set(values).reshape(like.shape)

    def omega(self, like: Any) -> float:
        """The factor s / K."""
        return math.prod(like.shape) / self.count(like)


class Entries(NamedTuple):
    """Some entries and their places."""

    values: Array
    places: Array


@parametrised
class TopK(Biased):
    """The K entries of largest size; K = ceil(per_cent of s)."""

    per_cent: int = param(PER_CENT, "how many entries in a hundred are kept")

    def count(self, like: Any) -> int:
        """The number K."""
        return math.ceil(self.per_cent * math.prod(like.shape) / 100)

    def compress(self, v: Array, key: Array) -> Entries:
        """K values and where they stand."""
        flat = v.reshape(-1)
        places = _largest(jnp.abs(flat), self.count(v))
        return Entries(flat[places], places)

    def restore(self, message: Entries, like: Any, key: Array | None = None) -> Array:
        """Zeros but at the places."""
        flat = jnp.zeros(math.prod(like.shape), like.dtype)
        return flat.at[message.places].set(message.values).reshape(like.shape)

    def delta(self, like: Any) -> float:
        """The factor s / K."""
        return math.prod(like.shape) / self.count(like)


class Rounded(NamedTuple):
    """The norm, and for each entry a small whole number; two of them in a byte where they fit."""

    norm: Array
    levels: Array


@parametrised
class RandomRounding(Unbiased):
    """QSGD (Alistarh et al. 2017): |v_i| / |v| is rounded at random to a multiple of 1 / levels."""

    levels: int = param(
        Rule(lambda v: at_least(1).holds(v) and v <= 127, "a whole number from 1 to 127", 7),
        "how many steps there are from 0 to the norm; up to 7 take half a byte, up to 127 a byte",
        default=7,
    )

    def compress(self, v: Array, key: Array) -> Rounded:
        """The norm and the levels, with their signs."""
        flat = v.reshape(-1)
        norm = jnp.linalg.norm(flat)
        place = self.levels * jnp.abs(flat) / jnp.where(norm > 0, norm, 1)
        up = jax.random.uniform(key, flat.shape, flat.dtype) < place - jnp.floor(place)
        levels = (jnp.sign(flat) * (jnp.floor(place) + up)).astype(np.int8)
        return Rounded(norm, levels if self.levels > 7 else _two_in_a_byte(levels))

    def restore(self, message: Rounded, like: Any, key: Array | None = None) -> Array:
        """The levels times the norm."""
        size = math.prod(like.shape)
        levels = message.levels if self.levels > 7 else _apart(message.levels, size)
        return (levels.astype(like.dtype) * (message.norm / self.levels)).reshape(like.shape)

    def omega(self, like: Any) -> float:
        """1 + min(s / levels^2, sqrt(s) / levels)."""
        size = math.prod(like.shape)
        return 1 + min(size / self.levels**2, math.sqrt(size) / self.levels)


class Powers(NamedTuple):
    """For each entry the exponent of a power of two, and eight signs in a byte."""

    exponents: Array
    signs: Array


@parametrised
class Natural(Unbiased):
    """Natural compression (Horvath et al. 2022): rounded at random to a power of two; 9 bits.

    Numbers below 2^-127 in size become zero.
    """

    def compress(self, v: Array, key: Array) -> Powers:
        """Exponents and signs."""
        flat = v.reshape(-1)
        mantissa, exponent = jnp.frexp(jnp.abs(flat))  # |v| = mantissa 2^exponent, 1/2 <= m < 1
        up = jax.random.uniform(key, flat.shape, flat.dtype) < 2 * mantissa - 1
        power = jnp.clip(exponent - 1 + up, -128, 127)
        power = jnp.where(flat == 0, -128, power)  # -128 stands for zero
        return Powers(power.astype(np.int8), jnp.packbits(flat < 0))

    def restore(self, message: Powers, like: Any, key: Array | None = None) -> Array:
        """The powers with their signs."""
        size = math.prod(like.shape)
        sizes = jnp.ldexp(jnp.ones(size, like.dtype), message.exponents.astype(np.int32))
        sizes = jnp.where(message.exponents == -128, 0, sizes)
        negative = jnp.unpackbits(message.signs, count=size).astype(bool)
        return jnp.where(negative, -sizes, sizes).reshape(like.shape)

    def omega(self, like: Any) -> float:
        """9 / 8."""
        return 9 / 8


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

    def _sides(self, like: Any) -> tuple[int, int]:
        size = math.prod(like.shape)
        rows = max(1, math.isqrt(size))
        return rows, -(-size // rows)

    def _rank(self, like: Any) -> int:
        return min(self.rank, *self._sides(like))

    def compress(self, v: Array, key: Array) -> Factors:
        """An orthonormal basis, and the coefficients in it."""
        rows, columns = self._sides(v)
        matrix = jnp.pad(v.reshape(-1), (0, rows * columns - v.size)).reshape(rows, columns)
        sketch = matrix @ jax.random.normal(key, (columns, self._rank(v)), v.dtype)
        basis, _ = jnp.linalg.qr(sketch)
        return Factors(basis, matrix.T @ basis)

    def restore(self, message: Factors, like: Any, key: Array | None = None) -> Array:
        """Their product."""
        size = math.prod(like.shape)
        return (message.left @ message.right.T).reshape(-1)[:size].reshape(like.shape)

    def delta(self, like: Any) -> float:
        """The smaller side over the rank: what a matrix of equal singular values loses."""
        return min(self._sides(like)) / self._rank(like)


def _largest(sizes: Array, count: int) -> Array:
    """The places of the largest of some numbers >= 0, ascending; of equal ones the first.

    The bits of such numbers are in their order, and whole numbers are sorted several times as fast.
    """
    bits = jax.lax.bitcast_convert_type(sizes, f"int{8 * sizes.dtype.itemsize}")
    least = jax.lax.sort(bits, is_stable=False)[-count]
    ties, above = bits == least, bits > least
    kept = above | (ties & (jnp.cumsum(ties) <= count - above.sum()))
    return jnp.nonzero(kept, size=count)[0].astype(np.int32)


def _two_in_a_byte(levels: Array) -> Array:
    even = jnp.pad(levels, (0, levels.size % 2)) + 8  # 1 .. 15
    pairs = even.astype(np.uint8).reshape(-1, 2)
    return pairs[:, 0] * np.uint8(16) + pairs[:, 1]


def _apart(pairs: Array, size: int) -> Array:
    both = jnp.stack([pairs // np.uint8(16), pairs % np.uint8(16)], axis=-1).reshape(-1)
    return both[:size].astype(np.int8) - 8
