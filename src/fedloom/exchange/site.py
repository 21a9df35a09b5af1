"""A client that is reachable by bytes only: its data, its state, and how old the state is.

A letter says from which state it wants to be answered: that after the last exchange in which the
hub heard from this client. A site therefore keeps the states of the running round, and the one that
the round began with. Where the hub did not get an answer, or plays a round again, the site goes
back to the state that the letter names, and nothing is lost or done twice.
"""

import dataclasses
from typing import Protocol

import jax

from fedloom.errors import StaleStateError, WireError
from fedloom.exchange import wire
from fedloom.exchange.expected import Expectations, Expected
from fedloom.exchange.hub import FIRST, Letter, Tag
from fedloom.population import Group, Party
from fedloom.protocol import Algorithm
from fedloom.rounds import keys
from fedloom.rounds.compiling import reproducible
from fedloom.schedules import at_round
from fedloom.types import Array, Tree


class StateStore(Protocol):
    """Where a site keeps states so that they outlive its process."""

    def read(self, like: Tree) -> dict[Tag, Tree]:
        """The states that were kept."""

    def put(self, tag: Tag, state: Tree) -> None:
        """Keep a state."""

    def drop(self, tag: Tag) -> None:
        """Forget one."""


@reproducible()
def _first_client(algorithm: Algorithm, group: Group | Party, key: Array) -> Tree:
    return algorithm.init_client(group.objective(0), key)


@reproducible("method")
def _perform(
    algorithm: Algorithm, group: Group | Party, state: Tree, message: Tree, key: Array, method: str
) -> tuple[Tree, Tree]:
    return algorithm.perform(method, state, message, group.objective(0), key)


_client_key = jax.jit(keys.client)  # some hundred small operations, if each is called by itself


class Site:
    """A client with its own rows and its states, which answers letters."""

    def __init__(
        self,
        id: int,
        algorithm: Algorithm,
        group: Group | Party,
        expected: Expectations,
        *,
        seed: int,
        store: StateStore | None = None,
    ):
        self.id = id
        self.algorithm = algorithm
        # Without its id, so that sites of equal shape share one compiled program.
        group = dataclasses.replace(group, members=(0,))
        self.group = jax.device_put(group)  # once, and not with every letter
        self.expected = expected
        self.root = keys.root(seed)
        self.store = store
        begun = at_round(algorithm, 0)
        self.first = _first_client(begun, group, keys.first_client(self.root, id))
        self.states: dict[Tag, Tree] = {}
        if store is not None and self._keeps_state:
            self.states |= store.read(self.first)

    @property
    def state(self) -> Tree:
        """The newest state."""
        return self.states[max(self.states)] if self.states else self.first

    def reply_to(self, letter: Letter) -> bytes:
        """Answer a letter; the state moves on."""
        return wire.encode(self.answer(letter))

    def answer(self, letter: Letter) -> Tree:
        """The arrays of the reply."""
        expected = self._expected(letter)
        before = self.state_after(letter.after)
        message = wire.decode(letter.body, expected.message, finite=self.algorithm.finite)
        key = _client_key(self.root, letter.round, letter.exchange, self.id)
        algorithm = at_round(self.algorithm, letter.round)
        state, reply = _perform(algorithm, self.group, before, message, key, method=letter.method)
        self._keep(letter, state)
        return reply

    def _expected(self, letter: Letter) -> Expected:
        stage = self.expected["opening" if letter.round == 0 else "round"]
        if not 1 <= letter.exchange <= len(stage):
            raise WireError(
                f"exchange {letter.exchange} of round {letter.round} is none of the "
                f"{len(stage)} that this method has. Both ends must run the same settings."
            )
        expected = stage[letter.exchange - 1]
        if expected.method != letter.method:
            raise WireError(
                f"exchange {letter.exchange} asks for {expected.method!r}, not for "
                f"{letter.method!r}. Both ends must run the same method with the same settings."
            )
        return expected

    @property
    def _keeps_state(self) -> bool:
        return bool(jax.tree.leaves(self.first))

    def state_after(self, tag: Tag | None) -> Tree:
        """The state after an exchange; a fresh one where none is named."""
        if tag in (None, FIRST) or not self._keeps_state:
            return self.first
        if tag not in self.states:
            held = ", ".join(f"round {r}, exchange {e}" for r, e in sorted(self.states))
            raise StaleStateError(
                f"the state after round {tag[0]}, exchange {tag[1]} is not here; there is "
                f"{held or 'none'}. Bring back the site's files, or let it start afresh."
            )
        return self.states[tag]

    def _keep(self, letter: Letter, state: Tree) -> None:
        """Keep a state; a round's first letter says which of the older ones is needed no more."""
        if not self._keeps_state:
            return
        tag = (letter.round, letter.exchange)
        if letter.after is None or letter.after[0] < letter.round:
            for old in self.states.keys() - {letter.after, tag}:
                del self.states[old]
                if self.store is not None:
                    self.store.drop(old)
        self.states[tag] = state
        if self.store is not None:
            self.store.put(tag, state)
