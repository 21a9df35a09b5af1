"""The cores of a CPU as a crew: each member computes some parts of a cohort, then all share them.

Every member is a thread that runs the same compiled program on the same rows, the hub's code
included, and leaves out the parts of the others. Where the cohort is done they meet, and each goes
on with what all have computed. JAX is left as the user has it: there is one device, as before.

Members meet in a callback, in which they keep a thread of those that JAX has for computing. If all
of these waited, nothing would go on. So one crew works at a time, it has no more members than JAX
has threads, and its programs have no kernel that needs another one (`compiling.compiled`). Should
members miss each other all the same, they give up, and one thread does their work.
"""

import functools
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from fedloom.types import Array, Tree

T = TypeVar("T")

_PATIENCE = 60.0  # seconds for which a member waits for the others

_working = threading.Lock()  # held by the crew that works now


def cores() -> int:
    """How many cores this process may use, of which JAX has a thread each."""
    known = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    told = os.environ.get("NPROC", "")  # by which JAX, too, is kept from using all
    return max(1, min(count, int(told))) if told.isdecimal() else count


class CannotMeetError(RuntimeError):
    """Members of a crew did not come together in time."""


class Crew:
    """So many threads that compute a program together; a part of the compiled program."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._places = itertools.count()  # where programs let members meet
        self._lock = threading.Lock()
        self._meetings: dict[tuple[int, int], _Meeting] = {}  # by place in the program, and turn
        self._turns: dict[tuple[int, int], int] = {}  # of a member, at a place in the program
        self._failed = False  # whether a member has, so that nobody is to wait for it

    def shared(self, tree: Tree, rank: Array) -> Tree:
        """Arrays that have the parts of all members, of arrays in which each has its own.

        Args:
            tree: Arrays whose first axis counts the parts; each member has computed those of its
                share, `mine`.
            rank: Which member this is, known at run time.
        """
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)
        meet = functools.partial(self._meet, next(self._places))
        return buffer_callback(meet, shapes, has_side_effect=True)(tree, rank)

    def mine(self, rank: Any, count: int) -> tuple[Any, Any]:
        """From which to which of `count` parts a member computes."""
        return rank * count // self.size, (rank + 1) * count // self.size

    def _meet(self, place: int, context: Any, out: Tree, tree: Tree, rank: Any) -> None:
        member = int(np.asarray(rank))
        own = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        with self._lock:
            if self._failed:
                raise threading.BrokenBarrierError
            turn = self._turns[member, place] = self._turns.get((member, place), 0) + 1
            if (place, turn) not in self._meetings:
                self._meetings[place, turn] = _Meeting(self.size, own)
            meeting = self._meetings[place, turn]
        for whole, part in zip(meeting.arrays, own, strict=True):
            first, last = self.mine(member, len(part))
            whole[first:last] = part[first:last]
        if meeting.barrier.wait(_PATIENCE) == 0:  # one of them, when all have come
            del self._meetings[place, turn]
        for target, whole in zip(jax.tree.leaves(out), meeting.arrays, strict=True):
            np.asarray(target)[...] = whole

    def begin(self) -> bool:
        """Take the cores, until `end`; False where another crew has them."""
        return _working.acquire(blocking=False)

    def end(self) -> None:
        """Let go of the cores."""
        _working.release()

    def do(self, work: Callable[[int], T]) -> list[T]:
        """Let every member do `work(rank)`; where one fails all end, with its error.

        Raises:
            CannotMeetError: If a member has waited for the others in vain.
        """
        self._turns.clear()
        self._meetings.clear()
        self._failed = False
        with ThreadPoolExecutor(self.size, "fedloom-crew") as threads:
            done = [threads.submit(self._member, work, rank) for rank in range(self.size)]
        errors = [error for d in done if (error := d.exception()) is not None]
        if errors:  # those who were left alone say less than the one that failed
            raise min(
                errors, key=lambda error: threading.BrokenBarrierError.__name__ in repr(error)
            )
        return [d.result() for d in done]

    def _member(self, work: Callable[[int], T], rank: int) -> T:
        try:
            return work(rank)
        except BaseException:
            with self._lock:
                self._failed = True
                for meeting in self._meetings.values():
                    meeting.barrier.abort()
            raise


class _Meeting:
    """Where the members of a crew bring what they have computed."""

    def __init__(self, size: int, like: list[np.ndarray]) -> None:
        self.barrier = threading.Barrier(size)
        self.arrays = [np.empty_like(array) for array in like]


@functools.cache
def crew_of(size: int) -> Crew:
    """The crew of this size: one for all runs, so that they share compiled programs."""
    return Crew(size)
