"""Compiled programs on disk, so that the next process starts at once."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from fedloom.cache import cache_folder

_FOLDER = "jax_compilation_cache_dir"
_SECONDS = "jax_persistent_cache_min_compile_time_secs"
_WORTH_KEEPING = 0.05  # seconds of compiling; JAX keeps what took a second

_lock = threading.Lock()
_inside = 0  # how many are in `kept_programs` now, over all threads
_ours: dict[str, Any] = {}  # what the first of them has set ...
_before: dict[str, Any] = {}  # ... and what it was


@contextlib.contextmanager
def kept_programs() -> Iterator[None]:
    """Keep what is compiled meanwhile in fedloom's folder; then JAX is set as it was before.

    A cache directory that the user has set stays; FEDLOOM_CACHE names another, or "off". JAX has
    one cache for all threads, so the first that comes sets it up, and the last that goes puts it
    back.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _set_up()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _put_back()


def _set_up() -> None:
    folder = cache_folder("programs")
    if getattr(jax.config, _FOLDER) or folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _ours.update({_FOLDER: str(folder), _SECONDS: _WORTH_KEEPING})
        _before.update({name: getattr(jax.config, name) for name in _ours})
        _change(_ours)


def _put_back() -> None:
    """Undo what was set up, but for what the user has set meanwhile."""
    left = {name: _before[name] for name in _ours if getattr(jax.config, name) == _ours[name]}
    if _ours:
        _change(left)
    _ours.clear()
    _before.clear()


def _change(values: dict[str, Any]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)
    reset_cache()  # JAX goes on with the folder that it used first until it is told to look again
