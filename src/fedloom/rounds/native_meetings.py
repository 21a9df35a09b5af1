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
from pathlib import Path

import jax
import numpy as np

from fedloom.checksums import digest
from fedloom.files import cache_folder, write_file
from fedloom.rounds import meetings
from fedloom.types import Array, Tree
from fedloom.versions import installed

_SOURCE = Path(__file__).with_name("meeting.cc")
_TARGET = "fedloom_meet"
_FLAGS = ["-std=c++17", "-O2", "-w", "-shared", "-fPIC"]
_SECONDS = 60  # for the compiler
_FAILURES = (OSError, subprocess.SubprocessError, AttributeError, RuntimeError)


class NativeMeetings:
    """The meetings of a program that a crew of this size runs; what `Meetings` does, sooner."""

    def __init__(self, library: ctypes.CDLL, size: int) -> None:
        self._library, self._size = library, size

    def shared(self, place: int, tree: Tree, rank: Array) -> Tree:
        """Arrays that have the parts of all members, of arrays in which each has its own."""
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
    """Those of a crew of this size; None where they have to be in Python."""
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


@functools.cache
def library() -> ctypes.CDLL | None:
    """What the source compiles to, known to JAX; None where it does not, or can not be kept."""
    folder, command = cache_folder("programs"), compiler()
    if folder is None or command is None:
        return None
    with contextlib.suppress(*_FAILURES):
        made = ctypes.CDLL(str(_made(folder, command)))
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(made.fedloom_meet), platform="cpu")
        return made
    return None


def _made(folder: Path, command: list[str]) -> Path:
    """The compiled source: this one, for this machine and this version of jaxlib."""
    call = [*command, *_FLAGS, f"-I{jax.ffi.include_dir()}", str(_SOURCE)]
    about = [str(installed("jaxlib")), platform.platform(), *call]
    name = digest(_SOURCE.read_bytes() + "\0".join(about).encode())
    path = folder / f"meeting-{name[:32]}.so"

    def compile_to(place: Path) -> None:
        subprocess.run([*call, "-o", str(place)], check=True, capture_output=True, timeout=_SECONDS)
        _ = ctypes.CDLL(str(place)).fedloom_meet  # only what can be used gets its name

    if not path.exists():
        write_file(path, compile_to, shared=True)
    return path
