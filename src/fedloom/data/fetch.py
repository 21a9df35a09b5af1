"""Find the files of a public dataset: in the user's data folder, in the cache, or at its source.

A download is checked before it gets its final name, so files in the cache are correct. Files in the
user's own folder are trusted, unless `verify` is asked for.
"""

import dataclasses
import http.client
import os
import shutil
import urllib.request
from pathlib import Path

from fedloom.data.packed import find, packing_of, sha256
from fedloom.errors import DataError, MissingDataError
from fedloom.files import cache_folder, write_file

_PATIENCE = 30  # seconds without an answer


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a public dataset."""

    place: str  # where it lies in a data folder, without a compression suffix
    url: str | None = None  # None: there is no direct download
    sha256: str | None = None  # None: no published checksum is known, so it is not downloaded
    packed: bool = False  # the checksum is of the packed file, as published; else of its content
    advice: str = ""  # how to get it by hand, where that takes more than following the address


def data_folder() -> Path | None:
    """The user's own data folder, named by FEDLOOM_DATA."""
    named = os.environ.get("FEDLOOM_DATA")
    return Path(named).expanduser() if named else None


def in_data_folder(file: File) -> Path | None:
    """The user's own copy of a file, if there is one."""
    folder = data_folder()
    return None if folder is None else find(folder, file.place)


def locate(file: File) -> Path:
    """The file on this machine, downloaded if need be."""
    cache = cache_folder("data")
    cached = None if cache is None else find(cache, file.place)
    return in_data_folder(file) or cached or _download(file, cache)


def verify(file: File, path: Path) -> None:
    """Raise DataError unless the file has the published checksum."""
    if file.sha256 is None:
        raise DataError(
            f"{path}: no published checksum is known for {file.place}, so it cannot be verified. "
            f"Leave out verify."
        )
    if file.packed and packing_of(path.name) != packing_of(file.url or path.name):
        raise DataError(
            f"{path}: the published checksum is of the packed file at {file.url}, so another copy "
            f"cannot be verified. Leave out verify, or get that file."
        )
    _check(file, path, str(path), packing_of(path.name))


def _check(file: File, path: Path, called: str, packing: str) -> None:
    found = sha256(path, "" if file.packed else packing)
    if found != file.sha256:
        what = "file" if file.packed else "unpacked file"
        raise DataError(
            f"{called}: the sha256 of the {what} must be {file.sha256}; got {found}. "
            f"It is damaged or another version: get a fresh copy."
        )


def _download(file: File, cache: Path | None) -> Path:
    if cache is None:
        raise _missing(file, "Nothing is downloaded where FEDLOOM_CACHE is off.")
    if file.url is None:
        raise _missing(file, "It has no direct download.")
    if file.sha256 is None:
        raise _missing(
            file,
            f"It is published at {file.url}, but no checksum is known by which to check it, so it "
            f"is not downloaded.",
        )
    url, packing = file.url, packing_of(file.url)
    path = cache / (file.place + packing)

    def fetch(temporary: Path) -> None:
        _stream(url, temporary)
        _check(file, temporary, url, packing)

    try:
        write_file(path, fetch, shared=True)
    except (OSError, http.client.HTTPException) as error:
        raise _missing(file, f"The download from {url} failed ({error}).") from error
    return path


def _stream(url: str, path: Path) -> None:
    from rich.console import Console
    from rich.progress import wrap_file

    with urllib.request.urlopen(url, timeout=_PATIENCE) as response:
        total = int(response.headers.get("Content-Length") or 0)
        console = Console(stderr=True)
        with (
            wrap_file(response, total, description=f"downloading {url}", console=console) as reader,
            path.open("wb") as writer,
        ):
            shutil.copyfileobj(reader, writer)


def _missing(file: File, reason: str) -> MissingDataError:
    folder = data_folder()
    own = "FEDLOOM_DATA (not set)" if folder is None else f"FEDLOOM_DATA ({folder / file.place})"
    cache = cache_folder("data")
    cached = "off" if cache is None else cache / file.place
    advice = file.advice or "Get it by hand."
    return MissingDataError(
        f"{file.place} is not on this machine. It was looked for in {own} and in the cache "
        f"({cached}), plain or as .gz, .bz2 or .xz. {reason} {advice} "
        f"Then put it at {file.place} in a folder of yours, and set FEDLOOM_DATA to that folder."
    )
