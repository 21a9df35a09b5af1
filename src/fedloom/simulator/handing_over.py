"""States that are handed from one block of rounds to the next, which writes over them.

The states of a million clients are hundreds of megabytes, and copying them in every block took most
of a run's time. So a block gets the state itself, and writes the next one in its place. To go back
after a divergence, after memory ran out or after Ctrl-C within a block, a copy is kept that is some
seconds old. Rounds are the same program however they are cut into blocks, so from there a run
reaches every later state again, to the last bit.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.rounds.compiling import compiled
from fedloom.rounds.program import State
from fedloom.types import Tree

LARGE = 2**24  # bytes of states; smaller ones are copied in no time, so that they are not taken
_SECONDS = 5.0  # after which a copy is made anew


class Sent(NamedTuple):
    """A state, and the bytes that were sent until then."""

    state: State
    bytes_down: int
    bytes_up: int


class WayBack:
    """A state to which a run can go back, kept from time to time."""

    def __init__(self, begin: Sent, seconds: float) -> None:
        self._kept, self._at = begin, seconds

    def keep(self, now: Sent, seconds: float) -> None:
        """Make a new copy if the last one is too old, after this many seconds of the run."""
        if seconds - self._at < _SECONDS:
            return
        del self._kept  # so that there are two copies at the most
        self._kept, self._at = now._replace(state=copied(now.state)), seconds

    def take(self) -> Sent:
        """A copy of what was kept, which may be given away."""
        return self._kept._replace(state=copied(self._kept.state))


def copied(state: State) -> State:
    """The same state in memory of its own, no array of which is another's."""
    hub, clients = compiled(_copied)((state.hub, state.clients))
    return State(state.round, hub, clients)


def is_gone(state: State) -> bool:
    """Whether the state was given away."""
    leaves: list[Any] = jax.tree.leaves((state.hub, state.clients))
    return any(leaf.is_deleted() for leaf in leaves if isinstance(leaf, jax.Array))


def _copied(tree: Tree) -> Tree:
    return jax.tree.map(jnp.copy, tree)
