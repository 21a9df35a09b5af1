"""Files that may be compressed, read as if they were not: plain, .gz, .bz2 or .xz."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from fedloom.errors import DataError, MissingDataError

_OPENERS: dict[str, Callable[[Path], object]] = {
    "": lambda path: path.open("rb"),
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
PACKINGS = tuple(_OPENERS)
_DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)


def packing_of(name: str) -> str:
    """The suffix that says how a file is compressed; empty for a plain one."""
    return next((packing for packing in PACKINGS if packing and name.endswith(packing)), "")


def bare_name(path: Path) -> str:
    """The name that a file has when it is not compressed."""
    return path.name.removesuffix(packing_of(path.name))


def find(folder: Path, place: str) -> Path | None:
    """The file or folder at a place, under any compression suffix."""
    candidates = (folder / (place + packing) for packing in PACKINGS)
    return next((path for path in candidates if path.exists()), None)


def read_bytes(path: Path) -> bytes:
    """The unpacked bytes of a file."""
    return b"".join(read_blocks(path, -1))


def read_blocks(path: Path, size: int) -> Iterator[bytes]:
    """The unpacked bytes of a file, so many at a time; -1: all at once."""
    if not path.is_file():
        raise MissingDataError(f"{path}: there is no such file. Check the path.")
    try:
        with _open(path, packing_of(path.name)) as file:
            while block := file.read(size):
                yield block
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def sha256(path: Path, packing: str | None = None) -> str:
    """The checksum of the unpacked bytes.

    Args:
        path: The file.
        packing: How it is compressed; by default what its name says. An empty string takes the
            bytes as they lie.
    """
    try:
        with _open(path, packing_of(path.name) if packing is None else packing) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _open(path: Path, packing: str) -> BinaryIO:
    return cast(BinaryIO, _OPENERS[packing](path))


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: the file cannot be unpacked ({error}). Get a fresh copy of it.")
