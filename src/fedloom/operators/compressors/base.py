"""Compressors: how a vector becomes fewer bytes, and a vector again at the other end.

`compress(v, key)` returns the arrays that travel, and `restore(message, like, key)` what the
receiver makes of them, so bytes are counted from what is really sent. An unbiased compressor Q
declares `omega`, with E Q(v) = v and E|Q(v)|^2 <= omega |v|^2; a biased one C declares `delta`,
with E|C(v) - v|^2 <= (1 - 1/delta) |v|^2. Where both ends draw from a common key (`shared`), places
need not be sent.
"""

from typing import ClassVar

import jax

from fedloom import draws
from fedloom.parameters import parametrised
from fedloom.protocol import payload_bytes
from fedloom.types import Array, Held, Tree

Message = Tree
Shaped = Held | jax.ShapeDtypeStruct  # what has a shape and a dtype


class Compressor:
    """Base of the compressors; vectors of any shape."""

    __parametrised__: ClassVar[bool] = True
    shared: bool = False  # whether `restore` must be given the key of `compress`
    exact: ClassVar[bool] = False  # whether nothing is lost

    def compress(self, v: Array, key: Array) -> Message:
        """The arrays that travel."""
        raise NotImplementedError

    def restore(self, message: Message, like: Shaped, key: Array | None = None) -> Array:
        """The vector that the receiver reads, of the shape and dtype of `like`."""
        raise NotImplementedError

    def wire_bytes(self, like: Shaped) -> int:
        """How many bytes a vector takes on the wire."""
        return payload_bytes(jax.eval_shape(self.compress, like, draws.key(0)))

    def portion(self, like: Shaped) -> float:
        """The bytes on the wire as a part of the vector's own, at most all of them."""
        return min(1.0, self.wire_bytes(like) / payload_bytes(like))


class Unbiased(Compressor):
    """E Q(v) = v."""

    def omega(self, like: Shaped) -> float:
        """E|Q(v)|^2 <= omega |v|^2."""
        raise NotImplementedError


class Biased(Compressor):
    """Closer to v than nothing, but not v on average: to be used with error feedback."""

    def delta(self, like: Shaped) -> float:
        """E|C(v) - v|^2 <= (1 - 1/delta) |v|^2."""
        raise NotImplementedError


@parametrised
class Identity(Unbiased):
    """The vector as it is."""

    exact: ClassVar[bool] = True

    def compress(self, v: Array, key: Array) -> Array:
        """All of it."""
        return v

    def restore(self, message: Array, like: Shaped, key: Array | None = None) -> Array:
        """All of it."""
        return message

    def omega(self, like: Shaped) -> float:
        """One."""
        return 1.0
