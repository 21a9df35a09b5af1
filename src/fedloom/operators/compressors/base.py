"""Compressors: they turn a vector into fewer bytes, and back into a vector at the receiver.

`compress(v, key)` returns the arrays that travel, and `restore(message, like, key)` what the
receiver makes of them, so bytes are counted from what is really sent. An unbiased compressor Q
declares `omega`, with E Q(v) = v and E|Q(v)|^2 <= omega |v|^2; a biased one C declares `delta`,
with E|C(v) - v|^2 <= (1 - 1/delta) |v|^2. Where both ends draw from a common key (`shared`), places
need not be sent.
"""

from typing import ClassVar

import jax

from fedloom import draws
from fedloom.errors import unwritten
from fedloom.parameters import parametrised
from fedloom.pytrees import payload_bytes
from fedloom.types import Array, Held, Tree

Message = Tree
Shaped = Held | jax.ShapeDtypeStruct  # what has a shape and a dtype


class Compressor:
    """Base of the compressors, which take arrays of any shape."""

    __parametrised__: ClassVar[bool] = True
    shared: bool = False  # whether `restore` must be given the key of `compress`
    exact: ClassVar[bool] = False  # whether nothing is lost

    def compress(self, v: Array, key: Array) -> Message:
        """The arrays that are sent in place of `v`.

        Args:
            v: The array to send.
            key: A random key; with `shared`, the receiver has the same.
        """
        raise unwritten(self, "compress")

    def restore(self, message: Message, like: Shaped, key: Array | None = None) -> Array:
        """The array that the receiver gets from a message.

        Args:
            message: What `compress` returned.
            like: An array, or a `jax.ShapeDtypeStruct`, of the shape and dtype that was sent.
            key: The key of `compress`, where the compressor is `shared`.
        """
        raise unwritten(self, "restore")

    def wire_bytes(self, like: Shaped) -> int:
        """How many bytes are sent for an array of the shape and dtype of `like`."""
        return payload_bytes(jax.eval_shape(self.compress, like, draws.key(0)))

    def portion(self, like: Shaped) -> float:
        """The bytes that are sent, as a fraction of the array's own; at most 1."""
        return min(1.0, self.wire_bytes(like) / payload_bytes(like))


class Unbiased(Compressor):
    """Base of the unbiased compressors: E Q(v) = v."""

    def omega(self, like: Shaped) -> float:
        """The omega with E|Q(v)|^2 <= omega |v|^2, for arrays of the shape of `like`."""
        raise unwritten(self, "omega")


class Biased(Compressor):
    """Base of the biased compressors, to be used with error feedback: E C(v) is not v."""

    def delta(self, like: Shaped) -> float:
        """The delta with E|C(v) - v|^2 <= (1 - 1/delta) |v|^2, for the shape of `like`."""
        raise unwritten(self, "delta")


@parametrised
class Identity(Unbiased):
    """No compression: arrays are sent as they are."""

    exact: ClassVar[bool] = True

    def compress(self, v: Array, key: Array) -> Array:
        """The array itself."""
        return v

    def restore(self, message: Array, like: Shaped, key: Array | None = None) -> Array:
        """The array itself."""
        return message

    def omega(self, like: Shaped) -> float:
        """Nothing is lost, so omega is 1."""
        return 1.0
