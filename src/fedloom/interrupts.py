"""Ctrl-C while a run computes: noted at once, acted on where nothing is half done.

Python raises KeyboardInterrupt wherever the main thread happens to be. In a callback of a compiled
program XLA would make an error of its own of it; in a destructor it would be lost. So, as long as a
run listens, the handler only notes that the key was pressed, and whoever is at a good place calls
`raise_if_pressed`. Only a run in the main thread listens, and only where Python's own handler is
set: a program that has another one, such as an event loop, keeps it.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_NAME = KeyboardInterrupt.__name__
_HEARD = b"stopping after these rounds; press Ctrl-C again to stop at once\n"
_STDERR = 2
_SAME = 1.0  # seconds after the first press within which others are taken for the same one


class _Presses:
    """What the handler has noted."""

    def __init__(self) -> None:
        self.first: float | None = None  # when
        self.heeded = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Note a press; who presses again later does not want to wait."""
        now = time.monotonic()
        if self.first is None:
            self.first = now
            with contextlib.suppress(OSError):  # not print, which may be in the middle of one
                os.write(_STDERR, _HEARD)
        elif now - self.first > _SAME:
            self.heeded = True
            raise KeyboardInterrupt


_listening: _Presses | None = None  # the run of the main thread, of which there is one at a time


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Note Ctrl-C, for `pressed`; one that nobody heeded is handed on, unless an error ends it."""
    global _listening
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not ours:
        yield
        return
    presses = _Presses()
    signal.signal(signal.SIGINT, presses.note)
    _listening = presses
    try:
        yield
    finally:
        _listening = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if presses.first is not None and not presses.heeded:
        raise KeyboardInterrupt


def pressed() -> bool:
    """Whether Ctrl-C was pressed since this thread began to listen; true once, for who heeds it."""
    presses = _listening
    if presses is None or threading.current_thread() is not threading.main_thread():
        return False
    if presses.first is None or presses.heeded:
        return False
    presses.heeded = True
    return True


def raise_if_pressed() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed since this thread began to listen; once."""
    if pressed():
        raise KeyboardInterrupt


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or the ValueError that XLA makes of it in a callback."""
    told = str(error)
    return isinstance(error, KeyboardInterrupt) or ("callback" in told and _NAME in told)
