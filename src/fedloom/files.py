"""Write files completely or not at all: under a temporary name, then renamed.

A file is private to its owner (0600) unless it is `shared`; then others may read it as far as the
umask allows. States, checkpoints, kits and policies are private; results and reports are shared.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fedloom.errors import DataError, ParameterError

JOBS = "slurm"  # in the folder of a comparison: what Slurm's workers are told and say
_ALONE, _SHARED = 0o600, 0o644
_FOLDER_ALONE, _FOLDER_SHARED = 0o700, 0o755


def write_file(path: Path, write: Callable[[Path], None], *, shared: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, then give it its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    # The system takes the umask off the mode of a new file; reading the umask would set it.
    mode = _SHARED if shared else _ALONE
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def free(path: Path) -> Path:
    """A path that the user gave for a new file; raises if it exists, as nothing is overwritten."""
    if os.path.lexists(path):
        raise DataError(
            f"{path} is there already, and is not overwritten. Name another file, or remove it."
        )
    return writable_file(path)


def writable_file(path: Path) -> Path:
    """A path that the user gave for a file; raises where none can be written."""
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder, where a file is to be written. Name a file.")
    writable_folder(path.parent)
    return path


def folder_name(name: str) -> str:
    """A name that people chose, as that of one folder: not a path, nor the folder above.

    Nor one of fedloom's own beside it: they begin with a dot, and `slurm` has the workers' jobs.
    """
    plain = name.replace("/", "-")
    return f"-{plain}" if plain.startswith(".") or plain in ("", JOBS) else plain


def check_own_folders(names: Iterable[str]) -> None:
    """Raise ParameterError where two methods would have one folder."""
    having: dict[str, str] = {}
    for name in names:
        folder = folder_name(name)
        other = having.setdefault(folder, name)
        if other != name:
            raise ParameterError(
                f"methods {other!r} and {name!r} would share the folder {folder!r}, and each needs "
                f"its own. Rename one of them."
            )


def writable_folder(path: Path) -> Path:
    """A path that the user gave for a folder; raises where none can be made, or written to.

    To be asked before the work of which the result shall lie there.
    """
    whole = path.absolute()
    there = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    if not os.path.isdir(there):
        raise DataError(f"{path} cannot be a folder, as {there} is a file. Name another place.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise DataError(f"{path}: you may not write to {there}. Name another place.")
    return path


def inside(folder: Path, name: str) -> Path:
    """What is in a folder that somebody may have handed over; raises where a link leads out of it.

    What is read in a folder is shown, sent back or written beside it: such a link would bring a
    file of whoever reads the folder to whoever made it.
    """
    file = folder / name
    if not file.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{file} is a link that leads out of its folder, and links from others are not "
            f"followed. Remove it, or put what it leads to in its place."
        )
    return file


def write_text(path: Path, text: str, *, shared: bool = False) -> None:
    """Write a text file."""
    write_bytes(path, text.encode("utf-8"), shared=shared)


def write_bytes(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write a binary file."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(data)

    write_file(path, write, shared=shared)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` make a temporary folder beside `path`, then put it in the place of `path`.

    The folder is shared; what lies in it is as private as it was written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    temporary.mkdir(_FOLDER_SHARED)
    try:
        fill(temporary)
        if path.exists():
            discarded = _beside(path)
            discarded.mkdir(_FOLDER_ALONE)
            os.replace(path, discarded)  # an empty folder may be replaced
            os.replace(temporary, path)
            shutil.rmtree(discarded)
        else:
            os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder during the block, against other processes and other threads."""
    import fcntl  # not on every system, and needed by federations only

    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, _ALONE)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def make_private(folder: Path) -> None:
    """Make a folder and everything in it accessible to its owner only."""
    for place, _, names in os.walk(folder):
        os.chmod(place, _FOLDER_ALONE)
        for name in names:
            file = Path(place) / name
            file.chmod(file.stat().st_mode & _FOLDER_ALONE)  # scripts stay scripts


def cache_folder(part: str) -> Path | None:
    """Where what can be made or fetched again is kept: compiled "programs", or downloaded "data".

    Below $FEDLOOM_CACHE, by default ~/.cache/fedloom; None where that is "off": nothing is kept.
    """
    named = os.environ.get("FEDLOOM_CACHE") or "~/.cache/fedloom"
    return None if named == "off" else Path(named).expanduser() / part


def _beside(path: Path) -> Path:
    return path.parent / f".{path.name}.{secrets.token_hex(4)}"
