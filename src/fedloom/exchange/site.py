"""A client that can be reached only by bytes: its data, its states, and how old each state is.

A letter names the state from which it is to be answered: the one after the last exchange in which
the hub heard from this client. A site therefore keeps the states of the current round, and the one
before it. If an answer did not reach the hub, or the hub plays a round again, the site goes back to
the state that the letter names, so that nothing is lost or done twice.
"""

import dataclasses
import logging
import re
from pathlib import Path

import jax

from fedloom import draws
from fedloom.errors import DataError, StaleStateError, WireError
from fedloom.exchange import wire
from fedloom.exchange.expected import Expectations, Expected
from fedloom.exchange.hub import FIRST, Letter, Tag
from fedloom.population import Group, Party
from fedloom.protocol import Algorithm, at_round
from fedloom.rounds.compiling import reproducible
from fedloom.types import Array, Tree

log = logging.getLogger("fedloom")
_NAME = re.compile(r"(\d+)-(\d+)\.safetensors")


@reproducible()
def _first_client(algorithm: Algorithm, group: Group | Party, key: Array) -> Tree:
    return algorithm.init_client(group.objective(0), key)


@reproducible("method")
def _perform(
    algorithm: Algorithm, group: Group | Party, state: Tree, message: Tree, key: Array, method: str
) -> tuple[Tree, Tree]:
    return algorithm.perform(method, state, message, group.objective(0), key)


# Some hundred small operations, if each is called by itself.
_client_key = jax.jit(draws.client_key)


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
        store: "StateFolder | None" = None,
    ):
        self.id = id
        self.algorithm = algorithm
        # Without its id, so that sites of equal shape share one compiled program.
        group = dataclasses.replace(group, members=(0,))
        self.group = jax.device_put(group)  # once, and not with every letter
        self.expected = expected
        self.root = draws.key(seed)
        self.store = store
        begun = at_round(algorithm, 0)
        self.first = _first_client(begun, group, draws.first_client_key(self.root, id))
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


class StateFolder:
    """States in files, one for each (round, exchange), so that they outlive a site's process."""

    def __init__(self, path: Path):
        self.path = path

    def read(self, like: Tree) -> dict[Tag, Tree]:
        """All states that are whole and fit the method; the rest are skipped."""
        states: dict[Tag, Tree] = {}
        for file in self.path.glob("*.safetensors"):
            named = _NAME.fullmatch(file.name)
            try:
                if named:
                    tag = int(named[1]), int(named[2])
                    states[tag] = self._state(file, tag, like)
            except (DataError, WireError) as error:
                log.warning("a state is lost: %s", error)
        return states

    def _state(self, file: Path, tag: Tag, like: Tree) -> Tree:
        arrays, facts = wire.read_file(file)
        if facts.get("tag") != list(tag):
            raise DataError(f"{file}: is the state after {facts.get('tag')}. Name it so again.")
        return wire.from_named(arrays, like)

    def put(self, tag: Tag, state: Tree) -> None:
        """Write a state: whole, or not at all."""
        wire.write_file(self._file(tag), state, {"tag": tag})

    def drop(self, tag: Tag) -> None:
        """Delete a state."""
        self._file(tag).unlink(missing_ok=True)

    def _file(self, tag: Tag) -> Path:
        return self.path / f"{tag[0]}-{tag[1]}.safetensors"
