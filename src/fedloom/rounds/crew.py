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
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from fedloom.types import Array, Tree

T = TypeVar("T")

_PATIENCE = 60.0  # seconds for which a member waits for the others while nobody computes, ...
_IDLE = 0.05  # ... that is, while the process uses less than so many of its cores
_SOON = 2e-3  # seconds within which they come as a rule ...
_PART, _PAUSE = 0.05, 0.05  # ... and later it sleeps for a part of what it waited, or so long
_LOOK = 0.1  # seconds after which is looked again whether members are left, where not all began

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
        self._meetings: dict[int, _Meeting] = {}  # by place in the program
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
            if place not in self._meetings:
                self._meetings[place] = _Meeting(self.size, own)
            meeting = self._meetings[place]
        turn = meeting.turns[member] + 1
        arrays = meeting.arrays[turn % 2]
        for whole, part in zip(arrays, own, strict=True):
            first, last = self.mine(member, len(part))
            whole[first:last] = part[first:last]
        meeting.turns[member] = turn
        self._wait(meeting.turns, turn)
        for target, whole in zip(jax.tree.leaves(out), arrays, strict=True):
            np.asarray(target)[...] = whole

    def _wait(self, turns: list[int], turn: int) -> None:
        """Until all members have come to this turn.

        They come within microseconds of each other, in which nobody could be put to sleep and woken
        again: who waits looks again and again, and lets others run in between. Where clients have
        more to do than others, or larger models, it may take minutes: as long as there is somebody
        who computes, the others come.
        """
        began = asked = time.monotonic()
        used = time.process_time()
        while min(turns) < turn:
            if self._failed:
                raise CannotMeetError
            now = time.monotonic()
            if now - asked > _PATIENCE:
                if time.process_time() - used < _IDLE * (now - asked):
                    raise CannotMeetError
                asked, used = now, time.process_time()
            waited = now - began
            time.sleep(0.0 if waited < _SOON else min(_PART * waited, _PAUSE))

    def begin(self) -> bool:
        """Take the cores, until `end`; False where another crew has them."""
        return _working.acquire(blocking=False)

    def end(self) -> None:
        """Let go of the cores."""
        _working.release()

    def do(self, work: Callable[[int], T]) -> list[T]:
        """Let every member do `work(rank)`; where one fails all end, with its error.

        An interruption, too, ends all: nobody is left in a program that a later one would meet.

        Raises:
            CannotMeetError: If a member has waited for the others in vain, or there can be none.
        """
        self._meetings.clear()
        self._failed = False
        done: dict[int, T] = {}
        errors: list[BaseException] = []
        ended, all_ended = set[int](), threading.Event()
        interrupted: list[KeyboardInterrupt] = []

        def member(rank: int) -> None:
            try:
                if not interrupted:  # where it is, this thread may begin when nobody waits for it
                    done[rank] = work(rank)
            except BaseException as error:
                errors.append(error)
                self._failed = True
            ended.add(rank)
            if len(ended) == self.size:
                all_ended.set()

        threads = [
            threading.Thread(target=member, args=[rank], name=f"fedloom-crew-{rank}")
            for rank in range(self.size)
        ]
        try:
            for thread in threads:
                thread.start()
        except RuntimeError:  # there is no memory for it, or the interpreter is about to end
            errors.append(CannotMeetError())
            self._failed = True
        except KeyboardInterrupt as error:
            interrupted.append(error)
            self._failed = True
        # However often Ctrl-C is pressed. Threads are not joined: where that is interrupted, Python
        # 3.11 takes a thread that runs for one that has ended.
        left = True
        while left:
            try:
                left = any(t.ident is not None and i not in ended for i, t in enumerate(threads))
                if left:
                    all_ended.wait(_LOOK)
            except KeyboardInterrupt as error:
                interrupted.append(error)
                self._failed = True
        self._meetings.clear()
        if interrupted:
            raise interrupted[0]
        own = [error for error in errors if CannotMeetError.__name__ not in repr(error)]
        if own:
            raise own[0]
        if errors:
            raise CannotMeetError from errors[0]
        return [done[rank] for rank in range(self.size)]


class _Meeting:
    """Where the members of a crew bring what they have computed, turn by turn.

    There are two sets of arrays. Nobody comes to the turn after the next before all have come to
    the next one, and then all have taken what they needed of this one.
    """

    def __init__(self, size: int, like: list[np.ndarray]) -> None:
        self.turns = [0] * size  # to which each member has come
        self.arrays = [[np.empty_like(array) for array in like] for _ in range(2)]


@functools.cache
def crew_of(size: int) -> Crew:
    """The crew of this size: one for all runs, so that they share compiled programs."""
    return Crew(size)
