"""Meetings without the interpreter, from `meeting.cc`, wherever there is a compiler for it.

The interpreter serves one thread at a time, so that a meeting in Python takes as long as a round of
a small model. The source is compiled once, in seconds, and kept beside the compiled programs. The
same numbers change hands either way, so that nothing depends on it but the time.
"""

import contextlib
import ctypes
import functools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from fedloom.checksums import digest
from fedloom.files import cache_folder, write_bytes
from fedloom.rounds import meetings
from fedloom.types import Array, Tree
from fedloom.versions import installed

_SOURCE = Path(__file__).with_name("meeting.cc")
_TARGET = "fedloom_meet"
_FLAGS = ["-std=c++17", "-O2", "-w", "-shared", "-fPIC"]
_SECONDS = 60  # for the compiler
_FAILURES = (OSError, subprocess.SubprocessError, AttributeError, RuntimeError)
_one_at_a_time = threading.Lock()


class NativeMeetings:
    """The meetings of a program that a crew of this size runs; as `Meetings`, but faster."""

    def __init__(self, library: ctypes.CDLL, size: int) -> None:
        self._library, self._size = library, size

    def shared(self, place: int, tree: Tree, rank: Array) -> Tree:
        """Arrays with the parts of all members, from arrays in which each has its own parts."""
        leaves, structure = jax.tree.flatten(tree)
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        call = jax.ffi.ffi_call(_TARGET, shapes, has_side_effect=True)
        numbers = {"size": np.int64(self._size), "place": np.int64(place)}
        return jax.tree.unflatten(structure, call(rank, *leaves, **numbers))

    def clear(self) -> None:
        """Forget who came and who failed; while no member works."""
        self._library.fedloom_clear(ctypes.c_double(meetings.PATIENCE))

    def fail(self) -> None:
        """Say that a member will not come, so that nobody waits for it."""
        self._library.fedloom_fail()


def of(size: int) -> NativeMeetings | None:
    """The meetings of a crew of this size; None if they have to be in Python."""
    made = library()
    return None if made is None else NativeMeetings(made, size)


def compiler() -> list[str] | None:
    """The command of a C++ compiler, $CXX or c++; None where there is none.

    On a Mac without developer tools, c++ is a program that asks whether to install them, so that it
    has to be named there.
    """
    usual = "" if sys.platform == "darwin" else "c++"
    try:
        command = shlex.split(os.environ.get("CXX", usual))
    except ValueError:
        return None
    return command if command and shutil.which(command[0]) else None


def library() -> ctypes.CDLL | None:
    """The compiled source, registered with JAX; None if it cannot be compiled or kept."""
    return attempt().library


class Attempt(NamedTuple):
    """The library; or why there is none, and what to do about it."""

    library: ctypes.CDLL | None
    hindrance: str = ""


def attempt() -> Attempt:
    """Make the library, or take the one that was kept; once in a process, as JAX takes one."""
    with _one_at_a_time:
        return _attempt()


@functools.cache
def _attempt() -> Attempt:
    folder, command = cache_folder("programs"), compiler()
    if folder is None:
        return Attempt(None, "a cache folder helps, to keep compiled code in")
    if command is None:
        return Attempt(None, "a C++ compiler helps; CXX names one that is not c++")
    try:
        made = _made(folder, command)
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(made.fedloom_meet), platform="cpu")
    except subprocess.CalledProcessError as error:
        told = error.stderr.decode(errors="replace").strip().splitlines() or [str(error)]
        return Attempt(None, f"{command[0]} does not compile {_SOURCE.name}: {told[0]}")
    except subprocess.TimeoutExpired:
        hindrance = f"{command[0]} has not compiled {_SOURCE.name} in {_SECONDS} seconds"
        return Attempt(None, hindrance)
    except _FAILURES as error:
        hindrance = f"what {command[0]} makes of {_SOURCE.name} can not be kept or loaded: {error}"
        return Attempt(None, hindrance)
    return Attempt(made)


def _made(folder: Path, command: list[str]) -> ctypes.CDLL:
    """The compiled source: this one, for this machine and this version of jaxlib.

    A file is called after what it was made from and what is in it: one that is damaged is made
    anew, where loading it could end the process.
    """
    call = [*command, *_FLAGS, f"-I{jax.ffi.include_dir()}", str(_SOURCE)]
    about = [str(installed("jaxlib")), platform.platform(), *call]
    source = digest(_SOURCE.read_bytes() + "\0".join(about).encode())[:32]
    for path in folder.glob(f"meeting-{source}-*.so"):
        if path.name == _name(source, path.read_bytes()):
            with contextlib.suppress(*_FAILURES):
                return _loaded(path)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".meeting-", dir=folder) as there:
        path = Path(there) / "meeting.so"
        subprocess.run([*call, "-o", str(path)], check=True, capture_output=True, timeout=_SECONDS)
        made = _loaded(path)  # only what can be used is kept
        content = path.read_bytes()
        write_bytes(folder / _name(source, content), content, shared=True)
    return made


def _name(source: str, content: bytes) -> str:
    return f"meeting-{source}-{digest(content)[:32]}.so"


def _loaded(path: Path) -> ctypes.CDLL:
    made = ctypes.CDLL(str(path))
    _ = made.fedloom_meet  # another library has none
    return made
