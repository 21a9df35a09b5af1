"""Compressors that keep fewer bits of each entry."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.operators.compressors.base import Shaped, Unbiased
from fedloom.parameters import Rule, at_least, param, parametrised
from fedloom.types import Array


class Rounded(NamedTuple):
    """The norm, and for each entry a small whole number; two of them in a byte where they fit."""

    norm: Array
    levels: Array


@parametrised
class RandomRounding(Unbiased):
    """QSGD (Alistarh et al. 2017): |v_i| / |v| is rounded at random to a multiple of 1 / levels."""

    levels: int = param(
        Rule(lambda v: at_least(1).holds(v) and v <= 127, "a whole number from 1 to 127", 7),
        "number of levels from 0 to the norm; up to 7 take half a byte, up to 127 a byte",
        default=7,
    )

    def compress(self, v: Array, key: Array) -> Rounded:
        """The norm and the levels, with their signs."""
        flat = v.reshape(-1)
        norm = jnp.linalg.norm(flat)
        place = self.levels * jnp.abs(flat) / jnp.where(norm > 0, norm, 1)
        up = jax.random.uniform(key, flat.shape, flat.dtype) < place - jnp.floor(place)
        # An entry that is the whole norm may round to just above the last level, which is all that
        # its bits can hold: one more would be of the other sign, or change its neighbour.
        level = jnp.minimum(jnp.floor(place) + up, self.levels)
        levels = (jnp.sign(flat) * level).astype(np.int8)
        return Rounded(norm, levels if self.levels > 7 else _two_in_a_byte(levels))

    def restore(self, message: Rounded, like: Shaped, key: Array | None = None) -> Array:
        """The levels times the norm."""
        size = math.prod(like.shape)
        levels = message.levels if self.levels > 7 else _apart(message.levels, size)
        return (levels.astype(like.dtype) * (message.norm / self.levels)).reshape(like.shape)

    def omega(self, like: Shaped) -> float:
        """The bound of the paper, 1 + min(s / levels^2, sqrt(s) / levels) for s entries."""
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
        # What is not finite has no exponent; as the largest number it shows that a run diverges.
        power = jnp.where(jnp.isfinite(flat), power, 127)
        return Powers(power.astype(np.int8), jnp.packbits(flat < 0))

    def restore(self, message: Powers, like: Shaped, key: Array | None = None) -> Array:
        """The powers with their signs."""
        size = math.prod(like.shape)
        sizes = jnp.ldexp(jnp.ones(size, like.dtype), message.exponents.astype(np.int32))
        sizes = jnp.where(message.exponents == -128, 0, sizes)
        negative = jnp.unpackbits(message.signs, count=size).astype(bool)
        return jnp.where(negative, -sizes, sizes).reshape(like.shape)

    def omega(self, like: Shaped) -> float:
        """Rounding to powers of two has omega = 9 / 8."""
        return 9 / 8


def _two_in_a_byte(levels: Array) -> Array:
    even = jnp.pad(levels, (0, levels.size % 2)) + 8  # 1 .. 15
    pairs = even.astype(np.uint8).reshape(-1, 2)
    return pairs[:, 0] * np.uint8(16) + pairs[:, 1]


def _apart(pairs: Array, size: int) -> Array:
    both = jnp.stack([pairs // np.uint8(16), pairs % np.uint8(16)], axis=-1).reshape(-1)
    return both[:size].astype(np.int8) - 8
