"""How programs are compiled: the same bits from every compilation, and kept on disk.

On a GPU, XLA times several kernels for each matrix product and convolution and takes the quickest,
so that two compilations of one program may round differently, and some kernels add numbers in the
order in which threads come by. A deterministic program uses neither: the same source gives the same
bits on the same kind of device, whoever compiles it. On a CPU every program does.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from fedloom.files import cache_folder

F = TypeVar("F", bound=Callable)

# Where steps are small, XLA's splitting of every kernel over CPU threads costs more than it gains:
# with it, a round of logistic regression over twenty clients took 1.5 times as long.
_SEQUENTIAL_KERNELS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
# What a crew of threads computes together leaves no thread over for kernels (`rounds.crew`). One
# thread alone is to come to the same bits, so that it has the same kernels.
_NO_OTHER_THREAD = {"xla_cpu_multi_thread_eigen": False}
_DETERMINISTIC = {"xla_gpu_exclude_nondeterministic_ops": True}

_FOLDER = "jax_compilation_cache_dir"
_SECONDS = "jax_persistent_cache_min_compile_time_secs"
_WORTH_KEEPING = 0.05  # seconds of compiling; JAX keeps what took a second

_lock = threading.Lock()
_inside = 0  # how many are in `kept_programs` now, over all threads
_ours: dict[str, Any] = {}  # what the first of them has set ...
_before: dict[str, Any] = {}  # ... and what it was


@functools.cache
def compiled(
    function: F,
    *static: str,
    given_away: tuple[str, ...] = (),
    small_steps: bool = False,
    by_threads: bool = False,
    deterministic: bool = True,
) -> F:
    """`function` compiled, with these arguments static.

    The same function gives the same compiled one, so that all who use it share its programs. What
    is given away is gone after a call, and results are written in its place.
    """
    options: dict[str, Any] = {}
    if jax.default_backend() == "cpu":
        options |= _SEQUENTIAL_KERNELS if small_steps else {}
        options |= _NO_OTHER_THREAD if by_threads else {}
    elif jax.default_backend() == "gpu" and deterministic:
        options |= _DETERMINISTIC
    return jax.jit(  # type: ignore[return-value]
        function,
        static_argnames=static,
        donate_argnames=given_away,
        compiler_options=options or None,
    )


def reproducible(*static: str) -> Callable[[F], F]:
    """Compile a function at its first call: at its definition the device may not be known yet."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return compiled(function, *static)(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


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
