"""Workers on this machine: processes of their own, each with its share of the cores.

Ctrl-C ends what they do at its next block of rounds, and what was done is kept. They end with the
process that made them, however that ends.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from types import FrameType
from typing import Any

_MEMORY = "XLA_CLIENT_MEM_FRACTION"  # the share of an accelerator's memory that a process takes
_ALL_MEMORY = 0.9  # what JAX may take of it, over all workers
_told: list[Any] = []  # in a worker: the event that tells it to stop


class LocalPool:
    """An executor with a number of processes, which are begun when there is something to do."""

    def __init__(self, workers: int):
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads of JAX
        shares, self._begun = context.SimpleQueue(), context.SimpleQueue()
        self._stop = context.Event()
        for share in _shares(workers):
            shares.put(share)
        self._pool = ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_begin,
            initargs=(shares, self._begun, self._stop, _ALL_MEMORY / workers),
        )

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Have a function called in one of the processes."""
        with _deaf():
            return self._pool.submit(_interruptible, function, *arguments)

    def __enter__(self) -> "LocalPool":
        return self

    def __exit__(self, *error: object) -> None:
        # Where all is done nobody hears it; else Ctrl-C was pressed, or something has failed. The
        # pool has handed out more than its processes do at the moment, so that they must be told.
        self._stop.set()
        while not self._begun.empty():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._begun.get(), signal.SIGINT)
        self._pool.shutdown(cancel_futures=True)


def _shares(workers: int) -> list[set[int]]:
    """The cores of each worker; none where the system does not say which there are."""
    if not hasattr(os, "sched_getaffinity"):
        return [set() for _ in range(workers)]
    cores = sorted(os.sched_getaffinity(0))
    return [set(cores[i::workers]) or {cores[i % len(cores)]} for i in range(workers)]


def _begin(shares: Any, begun: Any, stop: Any, memory: float) -> None:
    """The first thing that a worker does, before JAX looks at cores and memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _told.append(stop)
    if share := shares.get():
        os.sched_setaffinity(0, share)
    os.environ.setdefault(_MEMORY, f"{memory:.3f}")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begun.put(os.getpid())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that hears Ctrl-C once: a terminal and the pool may both send it."""

    def hear(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hear)
    try:
        if any(stop.is_set() for stop in _told):
            raise KeyboardInterrupt
        return function(*arguments)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that are begun within inherit that Ctrl-C is ignored, until they are ready."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
