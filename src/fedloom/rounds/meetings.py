"""Meetings: where the members of a crew exchange what they have computed.

Members are threads that run the same compiled program, and they meet in a callback of it. In the
callback each keeps a thread of those that JAX has for computing.
"""

import functools
import threading
import time
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from fedloom.types import Array, Tree

PATIENCE = 60.0  # seconds for which a member waits for the others while nobody computes, ...
_IDLE = 0.05  # ... that is, while the process uses less than so many of its cores
_STOPPED = 1.0  # seconds within which who waits looks again, but where the process was stopped
_SOON = 2e-3  # seconds within which they come as a rule ...
_PART, _PAUSE = 0.05, 0.05  # ... and later it sleeps for a part of what it waited, or so long


class CannotMeetError(RuntimeError):
    """Members of a crew did not come together in time."""


def share(rank: Any, count: int, size: int) -> tuple[Any, Any]:
    """From which to which of `count` parts one of `size` members computes."""
    return rank * count // size, (rank + 1) * count // size


class Meetings:
    """The meetings of a program that a crew of this size runs, in Python."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._meetings: dict[int, _Meeting] = {}  # by place in the program
        self._failed = False

    def shared(self, place: int, tree: Tree, rank: Array) -> Tree:
        """Arrays with the parts of all members, from arrays in which each has its own parts."""
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)
        meet = functools.partial(self._meet, place)
        return buffer_callback(meet, shapes, has_side_effect=True)(tree, rank)

    def clear(self) -> None:
        """Forget who came and who failed; while no member works."""
        self._meetings.clear()
        self._failed = False

    def fail(self) -> None:
        """Say that a member will not come, so that nobody waits for it."""
        self._failed = True

    def _meet(self, place: int, context: Any, out: Tree, tree: Tree, rank: Any) -> None:
        member = int(np.asarray(rank))
        own = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        with self._lock:
            if place not in self._meetings:
                self._meetings[place] = _Meeting(self._size, own)
            meeting = self._meetings[place]
        turn = meeting.turns[member] + 1
        arrays = meeting.arrays[turn % 2]
        for whole, part in zip(arrays, own, strict=True):
            first, last = share(member, len(part), self._size)
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
        who computes, the others come. While the process is stopped, as by Ctrl-Z, nobody does:
        that is no time in which they did not come.
        """
        began = asked = looked = time.monotonic()
        used = time.process_time()
        while min(turns) < turn:
            if self._failed:
                raise CannotMeetError
            now = time.monotonic()
            if now - looked > _STOPPED:
                asked += now - looked
            looked = now
            if now - asked > PATIENCE:
                if time.process_time() - used < _IDLE * (now - asked):
                    raise CannotMeetError
                asked, used = now, time.process_time()
            waited = now - began
            time.sleep(0.0 if waited < _SOON else min(_PART * waited, _PAUSE))


class _Meeting:
    """Arrays of one place in the program, turn by turn.

    There are two sets of them. Nobody comes to the turn after the next before all have come to
    the next one, and then all have taken what they needed of this one.
    """

    def __init__(self, size: int, like: list[np.ndarray]) -> None:
        self.turns = [0] * size  # to which each member has come
        self.arrays = [[np.empty_like(array) for array in like] for _ in range(2)]
