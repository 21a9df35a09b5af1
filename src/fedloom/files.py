"""Files that are either whole or not there: written under a temporary name, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_file(path: Path, write: Callable[[Path], None], mode: int = 0o644) -> None:
    """Let `write` fill a temporary file beside `path`, then give it its name and rights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a binary file."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(data)

    write_file(path, write)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` make a temporary folder beside `path`, then put it in the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        fill(temporary)
        temporary.chmod(0o755)
        if path.exists():
            discarded = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            os.replace(path, discarded)  # an empty folder may be replaced
            os.replace(temporary, path)
            shutil.rmtree(discarded)
        else:
            os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
