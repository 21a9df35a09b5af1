"""A crew: threads on the cores of a CPU, each of which computes some parts of a cohort for all.

Every member is a thread that runs the same compiled program on the same rows, the hub's code
included, but skips the parts of the others. At the end of a cohort the members meet, and each goes
on with what all have computed. The settings of JAX stay as the user has them: there is one device.

While members wait for each other (`meetings`), each occupies one of the threads that JAX has for
computing. If all of these waited, nothing could go on. So only one crew works at a time, it has no
more members than JAX has threads, and its programs have no kernel that needs a second thread
(`compiling.compiled`). If members miss each other all the same, they give up, and one thread does
their work. This can happen if another program keeps the other threads of JAX busy: a member's next
step may then be in the queue of the thread in which another member waits for it.
"""

import functools
import itertools
import math
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fedloom import interrupts
from fedloom.rounds import native_meetings
from fedloom.rounds.meetings import CannotMeetError, Meetings, share
from fedloom.types import Array, Tree

T = TypeVar("T")

_LOOK = 0.1  # seconds after which is looked again whether members are left

_working = threading.Lock()  # held by the crew that works now


def cores() -> int:
    """How many cores this process may use; JAX has a thread for each."""
    known = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    told = os.environ.get("NPROC", "")  # by which JAX, too, is kept from using all
    return max(1, min(count, int(told))) if told.isdecimal() else count


class Crew:
    """A number of threads that compute a program together; a part of the compiled program."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._places = itertools.count()  # where programs let members meet
        self._meetings = native_meetings.of(size) or Meetings(size)

    def number_anew(self) -> None:
        """Number the places of the next program from 0: the same program is then kept once."""
        self._places = itertools.count()

    def shared(self, tree: Tree, rank: Array) -> Tree:
        """Arrays with the parts of all members, from arrays in which each member has its own parts.

        Args:
            tree: Arrays whose first axis counts the parts; each member has computed those of its
                share, `mine`.
            rank: Which member this is, known at run time.
        """
        return self._meetings.shared(next(self._places), tree, rank)

    def mine(self, rank: Any, count: int) -> tuple[Any, Any]:
        """From which to which of `count` parts a member computes."""
        return share(rank, count, self.size)

    def begin(self) -> bool:
        """Take the cores, until `end`; False where another crew has them."""
        return _working.acquire(blocking=False)

    def end(self) -> None:
        """Let go of the cores."""
        _working.release()

    def do(self, work: Callable[[int], T], limit: float = math.inf) -> list[T]:
        """Let every member do `work(rank)`; where one fails all end, with its error.

        After `limit` seconds in which the process ran nobody waits for the others any longer.

        What is raised in the thread that waits for them, such as Ctrl-C or a time limit by a
        signal, ends all, too: nobody is left in a program that a later one would meet.

        Raises:
            CannotMeetError: If a member has waited for the others in vain, or there can be none.
        """
        self._meetings.clear()
        done: dict[int, T] = {}
        errors: list[BaseException] = []
        ended, all_ended = set[int](), threading.Event()
        stopped: list[BaseException] = []  # by what, where the thread that waits was

        def member(rank: int) -> None:
            try:
                if not stopped:  # where they are, this thread may begin when nobody waits for it
                    done[rank] = work(rank)
            except BaseException as error:
                errors.append(error)
                self._meetings.fail()
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
            self._meetings.fail()
        except BaseException as error:
            stopped.append(error)
            self._meetings.fail()
        # However often Ctrl-C is pressed. Threads are not joined: where that is interrupted, Python
        # 3.11 takes a thread that runs for one that has ended.
        left, looks = True, 0
        while left:
            try:
                left = any(t.ident is not None and i not in ended for i, t in enumerate(threads))
                if left:
                    interrupts.raise_if_pressed()
                    all_ended.wait(_LOOK)
                    looks += 1  # and not by the clock, which goes on where the process is stopped
                if looks * _LOOK > limit:
                    self._meetings.fail()
            except BaseException as error:
                stopped.append(error)
                self._meetings.fail()
        self._meetings.clear()
        if stopped:
            raise stopped[0]
        own = [error for error in errors if CannotMeetError.__name__ not in repr(error)]
        if own:
            raise own[0]
        if errors:
            raise CannotMeetError from errors[0]
        return [done[rank] for rank in range(self.size)]


@functools.cache
def crew_of(size: int) -> Crew:
    """The crew of this size: one for all runs, so that they share compiled programs."""
    return Crew(size)
