"""Which line of the author's code caused an error, and what errors of JAX mean there."""

import ast
import inspect
import linecache
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.algorithms.wrappers.base import Wrapper, layers
from fedloom.errors import FedloomError
from fedloom.protocol import Algorithm

_NOT_THE_AUTHORS = tuple(
    str(folder)
    for folder in (
        Path(inspect.getfile(Algorithm)).parent,
        sysconfig.get_path("stdlib"),
        Path(jax.__file__).parent,
        Path(np.__file__).parent,
        "<",  # code that was not read from a file
    )
)
_MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (
        jax.errors.TracerBoolConversionError,
        "a Python `if`, `while`, `and` or `assert` looks at a value that is known only when the "
        "compiled program runs. Use jnp.where or jax.lax.cond; an exchange that happens at times "
        "is ask(..., when=coin)",
    ),
    (
        jax.errors.TracerIntegerConversionError,
        "a Python index or range needs a value that is known only when the compiled program runs. "
        "Use jax.lax.fori_loop or jnp indexing, or make the parameter an int",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "a NumPy function is called on a value that is known only when the compiled program runs. "
        "Use the function of the same name in jax.numpy",
    ),
    (
        jax.errors.UnexpectedTracerError,
        "a value of an earlier call was kept outside of the state. What the next round needs "
        "must be in the state that the round returns",
    ),
    (
        jax.errors.ConcretizationTypeError,
        "float(), int() or a shape needs a value that is known only when the compiled program "
        "runs. Compute with jax.numpy, or make the parameter an int, which is fixed",
    ),
)


def meaning(error: Exception) -> str:
    """What an error says, in a sentence."""
    for kind, words in _MEANINGS:
        if isinstance(error, kind):
            return words
    first = str(error).strip().split("\n\n")[0]
    # Ours are sentences; JAX adds one about its tracebacks.
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("---")]
    told = " ".join([*first.split(), *notes])
    return told if isinstance(error, FedloomError) else f"{type(error).__name__}: {told}"


def line_of_error(error: BaseException, method: Algorithm) -> str:
    """The last line of the author's own code through which an error came."""
    own = _files(method)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in own or not frame.filename.startswith(_NOT_THE_AUTHORS):
            return _told(frame.filename, frame.lineno or 0, frame.name)
    return line_of(type(method).round)


def line_of_frames(frames: Iterable[tuple[str, int, str]], method: Algorithm) -> str:
    """The innermost of some frames (file, line, function) that is in the author's own code."""
    own = _files(method)
    for file, line, function in frames:
        if file in own:
            return _told(file, line, function)
    return line_of(type(method).round)


def line_of_yield(steps: Generator, method: Algorithm) -> str:
    """Where a round stands that has just asked."""
    own, line = _files(method), line_of(type(method).round)
    inner: Any = steps
    while inspect.isgenerator(inner):  # a round may pass exchanges of another generator on
        frame = inner.gi_frame
        if frame is not None and frame.f_code.co_filename in own:
            line = _told(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        inner = inner.gi_yieldfrom
    return line


def line_of_return(function: Callable) -> str:
    """The last `return` of a function."""
    try:
        lines, start = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return line_of(function)
    returns = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)]
    if not returns:
        return line_of(function)
    return _told(function.__code__.co_filename, start + max(returns) - 1, function.__name__)


def line_of(function: Callable) -> str:
    """Where a function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return function.__name__
    return _told(code.co_filename, code.co_firstlineno, function.__name__)


def _told(file: str, line: int, function: str) -> str:
    text = linecache.getline(file, line).strip()
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
    return f"{shown}:{line}, in {function}" + (f": {text}" if text else "")


def _files(method: Algorithm) -> set[str]:
    """The files of a method's classes, and of what it wraps."""
    common = set(Algorithm.__mro__) | set(Wrapper.__mro__)
    classes = {cls for layer in layers(method) for cls in type(layer).__mro__} - common
    found = set()
    for cls in classes:
        for entry in vars(cls).values():
            code = getattr(entry, "__code__", None)
            if code is not None and entry.__module__ == cls.__module__:
                found.add(code.co_filename)
    return found
