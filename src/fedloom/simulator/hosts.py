"""Several processes that compute one run together, on one or more machines, by `jax.distributed`.

They all run the same program over the devices of all processes, and exchange numbers within it. So
they must do the same things in the same order: a process that takes another way leaves the others
waiting for ever. Whatever a process would decide by itself (from its clock, its free memory,
Ctrl-C, an error) is therefore told to all. Process 0 leads: only it writes files, shows progress
and warns.

Callers come here only in a process that has joined others (`jax.distributed.is_initialized()`). If
it is the only one that joined, everything here returns at once.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from fedloom import interrupts
from fedloom.errors import HostsError
from fedloom.simulator.progress import Progress, Silent

T = TypeVar("T")

_WELL, _INTERRUPTED, _FAILED = range(3)


def several() -> bool:
    """Whether there are other processes."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def leads() -> bool:
    """Whether this process writes files and speaks for all."""
    return not several() or jax.process_index() == 0


def gathered(numbers: np.ndarray) -> np.ndarray:
    """The numbers of every process, (processes, ...), the same bits in each."""
    if not several():
        return numbers[None]
    # As whole numbers of 32 bits, which JAX leaves as they are in every precision.
    plain = np.ascontiguousarray(numbers, float).view(np.int32)
    return np.asarray(multihost_utils.process_allgather(plain)).view(float)


def least(number: float) -> float:
    """The smallest of the numbers that the processes have."""
    return float(gathered(np.array([number], float)).min())


def sent(data: bytes | None) -> bytes | None:
    """What process 0 has, for all."""
    if not several():
        return data
    length = int(gathered(np.array([-1 if data is None else len(data)], float))[0, 0])
    if length < 0:
        return None
    own = np.frombuffer(data, np.uint8) if data and leads() else np.zeros(length, np.uint8)
    return bytes(multihost_utils.broadcast_one_to_all(own).tobytes())


@contextlib.contextmanager
def all_or_none() -> Iterator[None]:
    """Continue after the block only if every process has come through it without an error."""
    if not several():
        yield
        return
    error: BaseException | None = None
    try:
        yield
    except KeyboardInterrupt as found:
        error, code = found, _INTERRUPTED
    except BaseException as found:
        error, code = found, _FAILED
    else:
        code = _WELL
    codes = gathered(np.array([code], float))[:, 0]
    failed = np.flatnonzero(codes == _FAILED)
    if code == _FAILED and error is not None:
        raise error
    if failed.size:
        raise HostsError(
            f"process {failed[0]} of {len(codes)} failed, so that this one ends too. What it "
            f"printed says why."
        )
    if (codes == _INTERRUPTED).any():
        raise KeyboardInterrupt


def led(action: Callable[[T], object] | None) -> Callable[[T], None]:
    """A function that all processes call together, and that acts only in the first one."""

    def call(value: T) -> None:
        by_leader(lambda: None if action is None else action(value))

    return call


def by_leader(action: Callable[[], object]) -> None:
    """Let process 0 do something while the others wait; if it fails, all of them do."""
    with all_or_none():
        if leads():
            action()


def check_same(facts: Mapping[str, Any]) -> None:
    """Raise HostsError if processes are about to begin with different arguments."""
    if not several():
        return
    digests = np.stack([np.frombuffer(_digest(value), np.uint8) for value in facts.values()])
    everyone = gathered(digests.astype(float))
    for name, own in zip(facts, everyone.swapaxes(0, 1), strict=True):
        for process in range(1, len(own)):
            if not np.array_equal(own[0], own[process]):
                raise HostsError(
                    f"{name} must be the same in all processes; process {process} has another than "
                    f"process 0. Start all with the same program, settings, files and versions."
                )


def _digest(value: Any) -> bytes:
    """A digest of arrays by their bits, and of everything else by how it is written."""
    hashed = hashlib.sha256()
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, np.ndarray | jax.Array):
            array = np.ascontiguousarray(leaf)
            hashed.update(f"{array.dtype}{array.shape}".encode())
            hashed.update(array.view(np.uint8).data if array.size else b"")
        else:
            hashed.update(re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode())
    return hashed.digest()


class Shared(Silent):
    """The progress of all processes, which the first alone shows; where it fails, all do."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar if leads() else None

    def advance(self, round: int, rate: float) -> None:
        """Show it after each block of rounds."""
        with all_or_none():
            if self._bar is not None:
                self._bar.advance(round, rate)

    def evaluated(self, row: dict[str, float]) -> None:
        """Show it after each evaluation."""
        if self._bar is not None:
            self._bar.evaluated(row)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()


def agreed(*numbers: float) -> tuple[float, ...]:
    """The numbers of process 0; KeyboardInterrupt in all, where Ctrl-C was pressed in one."""
    if not several():
        interrupts.raise_if_pressed()
        return numbers
    everyone = gathered(np.array([interrupts.pressed(), *numbers], float))
    if everyone[:, 0].any():
        raise KeyboardInterrupt
    return tuple(everyone[0, 1:].tolist())
