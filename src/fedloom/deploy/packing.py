"""Arrays of few distinct numbers as codes of 1, 2, 4 or 8 bits beside those numbers."""

from typing import NamedTuple

import numpy as np

from fedloom.errors import DataError

WIDTHS = (1, 2, 4, 8)


class PackedArray(NamedTuple):
    """An array as codes: entry j is centres[code j]."""

    codes: np.ndarray  # (bytes,) of uint8, the first code in the lowest bits
    centres: np.ndarray
    bits: int
    shape: tuple[int, ...]


class Sizes(NamedTuple):
    """How many bytes a model takes on disk, not counting the header that names the arrays."""

    float32: int  # all arrays as 32-bit numbers
    packed: int  # all arrays as `save` writes them
    layers_float32: int  # the layers that are packed, as 32-bit numbers
    layers_packed: int  # the same layers as `save` writes them

    @property
    def ratio(self) -> float:
        """How many times smaller the whole model is."""
        return self.float32 / self.packed

    @property
    def layers_ratio(self) -> float:
        """How many times smaller the packed layers are; 1 where there are none."""
        return self.layers_float32 / self.layers_packed if self.layers_packed else 1.0


def pack(array: np.ndarray) -> PackedArray | None:
    """The array as codes, exactly; None where that would save nothing."""
    centres, codes = np.unique(array, return_inverse=True)
    bits = next((width for width in WIDTHS if len(centres) <= 2**width), None)
    if bits is None or array.ndim < 2:
        return None
    each = 8 // bits
    if -(-array.size // each) + centres.nbytes >= array.nbytes:
        return None
    padded = np.zeros(-(-array.size // each) * each, np.uint8)
    padded[: array.size] = codes.ravel()
    shifted = padded.reshape(-1, each) << (bits * np.arange(each, dtype=np.uint8))
    return PackedArray(np.bitwise_or.reduce(shifted, axis=1), centres, bits, array.shape)


def unpack(packed: PackedArray) -> np.ndarray:
    """The array that was packed."""
    codes, centres, bits, shape = packed
    each, size = 8 // bits, int(np.prod(shape))
    if bits not in WIDTHS or codes.dtype != np.uint8 or len(codes) != -(-size // each):
        raise DataError(
            f"{size} codes of {bits} bits must be {-(-size * bits // 8)} bytes; got {len(codes)} "
            f"of {codes.dtype}. Get a fresh copy of the file."
        )
    spread = codes[:, None] >> (bits * np.arange(each, dtype=np.uint8)) & (2**bits - 1)
    places = spread.ravel()[:size]
    if places.max(initial=0) >= len(centres):
        raise DataError(
            f"a code must be below the number of centres, {len(centres)}; got {places.max()}. "
            f"Get a fresh copy of the file."
        )
    return centres[places].reshape(shape)
