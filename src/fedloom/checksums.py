"""Checksums by which a file shows that it is still as it was written.

A file that fedloom writes and reads again holds the text `sha256:` and 64 digits near its
beginning: the SHA-256 of the whole file with zeros in the place of these digits. Every bit of the
file counts, and to other tools it still is plain JSON or safetensors. Files that cannot hold such a
text, as Parquet, are listed with their digests in one that can.

It finds damage, not malice: whoever can write a file can also write its checksum.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.errors import DataError, MissingDataError
from fedloom.files import write_bytes

_MARK = b"sha256:"
BLANK = _MARK.decode() + "0" * 64  # what a file holds before it is sealed
_CHECKSUM, _NAME = "checksum", "file"  # the first two keys of a JSON file
_ADVICE = "Get an unharmed copy of it, or make it anew."


def digest(data: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def of_arrays(*arrays: Any) -> str:
    """The first digits of the SHA-256 of arrays, one after the other."""
    return digest(b"\n".join(np.asarray(array).tobytes() for array in arrays))[:16]


def seal(data: bytes) -> bytes:
    """Put the checksum into the first BLANK of a file's content."""
    start, end = _place(data)
    return b"".join([data[:start], _expected(data, start, end), data[end:]])


def unseal(path: Path) -> bytes:
    """The content of a file, if its checksum is right."""
    data = read_bytes(path)
    start, end = _place(data)
    if start < 0 or end > len(data):
        raise DataError(
            f"{path}: carries no checksum: it is damaged, or nothing that this fedloom wrote. "
            f"{_ADVICE}"
        )
    if data[start:end] != _expected(data, start, end):
        raise DataError(
            f"{path}: is not as fedloom wrote it: its checksum is of another content. {_ADVICE}"
        )
    return data


def unchanged(path: Path, known: str) -> bytes:
    """The content of a file that is listed elsewhere with its digest."""
    data = read_bytes(path)
    if digest(data) != known:
        raise DataError(
            f"{path}: is not the file that belongs here: its checksum is another. {_ADVICE}"
        )
    return data


def read_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingDataError(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}). Check the file.") from error


def write_json(path: Path, facts: dict[str, Any], *, shared: bool = False) -> None:
    """Write plain values with a checksum."""
    text = json.dumps({_CHECKSUM: BLANK, _NAME: path.name, **facts}, indent=2) + "\n"
    write_bytes(path, seal(text.encode()), shared=shared)


def read_json(path: Path) -> dict[str, Any]:
    """The plain values that `write_json` wrote."""
    data = unseal(path)
    with understood(path):
        facts = json.loads(data)
        del facts[_CHECKSUM]
        named = facts.pop(_NAME)
    if named != path.name:
        raise DataError(f"{path}: holds what belongs into {named}. {_ADVICE}")
    return facts


@contextlib.contextmanager
def understood(path: Path) -> Iterator[None]:
    """Turn any error while a file's content is read into an error that names the file."""
    try:
        yield
    except Exception as error:  # damaged content breaks code in more ways than can be listed
        if isinstance(error, DataError) and str(path) in str(error):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{path}: its content cannot be used ({reason}). {_ADVICE}") from error


def _place(data: bytes) -> tuple[int, int]:
    """Where the digits are; before the beginning where there are none."""
    found = data.find(_MARK)
    start = found + len(_MARK) if found >= 0 else -1
    return start, start + 64


def _expected(data: bytes, start: int, end: int) -> bytes:
    view = memoryview(data)  # a checkpoint may be large: no copies
    found = hashlib.sha256(view[:start])
    found.update(b"0" * (end - start))
    found.update(view[end:])
    return found.hexdigest().encode()
