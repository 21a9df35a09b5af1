"""The lock of a kit: two commands at a time would end each other's processes."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from fedloom.errors import FederationError
from fedloom.federation.kits import Kit

LOCK = "lock"  # the file in a kit; it holds the number of the process that has the lock


@contextlib.contextmanager
def held(kit: Kit) -> Iterator[None]:
    """Hold a kit for the time of the block; refuse at once where another process does.

    The system lets go of the lock when its process ends, however it ends, so none is ever stale.
    """
    file = os.open(kit.path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise FederationError(
                f"{kit.path} is in use already, by the process {holder} of this machine. Stop that "
                f"one first; it goes on unharmed."
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode("ascii"), 0)
        yield
    finally:
        os.close(file)
