"""Claims: which of several workers, possibly on several hosts, works on a run.

A claim is a file in the run's folder that only one worker can create (O_EXCL, which network file
systems support too). Its holder renews its time every few seconds. If it has not been renewed for
long, or its process on this host is gone, the worker was killed, and the next one takes over.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CLAIM, _PASSING = ".claim", ".claim-passing"  # files in a run's folder
_RENEWED = 10.0  # seconds between two signs of life
_LEFT = 120.0  # seconds without one, after which a worker of another host is taken for dead


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Whether a run is ours for the time of the block; False where another worker has it."""
    folder.mkdir(parents=True, exist_ok=True)
    file, own = folder / _CLAIM, f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}"
    if not _made(file, own) and not (_passed(file) and _made(file, own)):
        yield False
        return
    ended = threading.Event()
    renewal = threading.Thread(target=_renew, args=(file, ended), daemon=True)
    renewal.start()
    try:
        yield True
    finally:
        ended.set()
        renewal.join()
        found = _found(file)
        if found is not None and found.holder == own:
            file.unlink(missing_ok=True)


def is_claimed(folder: Path) -> bool:
    """Whether a worker that is alive has the run of a folder."""
    found = _found(folder / _CLAIM)
    return found is not None and not found.left


def _made(file: Path, text: str) -> bool:
    """Whether the file was not there, and is now."""
    try:
        made = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(made, "w", encoding="utf-8") as opened:
        opened.write(text)
    return True


def _renew(file: Path, ended: threading.Event) -> None:
    while not ended.wait(_RENEWED):
        with contextlib.suppress(OSError):  # a file system that is away for a moment
            os.utime(file)


def _passed(file: Path) -> bool:
    """Remove a claim that was left; only one at a time, or it would remove that of the next.

    Where no claim is found there is nothing to remove: whatever is there a moment later is alive.
    """
    found = _found(file)
    if found is not None and not found.left:
        return False
    passing = file.with_name(_PASSING)
    if not _made(passing, ""):
        other = _found(passing)
        if other is not None and other.age > _LEFT:  # killed within these few lines
            passing.unlink(missing_ok=True)
        return False
    try:
        found = _found(file)
        if found is not None and found.left:
            file.unlink(missing_ok=True)
        return True
    finally:
        passing.unlink(missing_ok=True)


class _Claim(NamedTuple):
    """What a claim says, all of it read from one file."""

    holder: str
    age: float

    @property
    def left(self) -> bool:
        """Whether nobody holds it any more."""
        if self.age > _LEFT:
            return True
        host, _, rest = self.holder.partition(" ")
        number = rest.partition(" ")[0]
        # Of another host, and where it is just being written, the time alone says it.
        return host == socket.gethostname() and number.isdigit() and not _runs(int(number))


def _found(file: Path) -> _Claim | None:
    try:
        with file.open(encoding="utf-8") as opened:
            age = time.time() - os.fstat(opened.fileno()).st_mtime
            return _Claim(opened.read(), age)
    except FileNotFoundError:
        return None


def _runs(process: int) -> bool:
    if os.name != "posix":  # where signal 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        return True
    return True
