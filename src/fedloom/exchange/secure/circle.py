"""The sites that sum together, and the texts that they sign for each other.

A signature covers everything that must be the same at both ends. If the server told one site
something else than another, the signatures do not fit, and both notice.
"""

import hashlib
import json
from collections.abc import Collection
from typing import Any, NamedTuple

from fedloom.errors import RefusedError
from fedloom.exchange.hub import Letter

LEAST = 3  # members; of a sum of two, each knows the other's part


def threshold(members: int) -> int:
    """How many must stay to the end: more than two thirds.

    Two groups of that size share more than a third of the members. If no more than a third work for
    the server, an honest one is in both, and it agrees to one sum only.
    """
    return 2 * members // 3 + 1


class Circle(NamedTuple):
    """The sites of a run, and what all of them must have been told alike."""

    run: str
    names: tuple[str, ...]
    told: str  # a digest of the settings and of everything that `begin` says

    def check(self, id: int, name: str) -> None:
        """Refuse a circle in which this site is not itself, or another one has two places."""
        if not 0 <= id < len(self.names) or self.names[id] != name:
            raise RefusedError(f"this site is {name}, and is told another place or name.")
        if len(set(self.names)) < len(self.names):
            raise RefusedError("a site must not have two places in a secure sum.")

    def keys_text(self, letter: Letter, id: int, keys: str, least: int) -> bytes:
        """What a site signs of its keys, and of how many its owner wants in a sum."""
        return _text("keys", *self._where(letter), id, self.names[id], keys, least)

    def arrived_text(
        self, letter: Letter, said: str, members: Collection[int], arrived: Collection[int]
    ) -> bytes:
        """What a site signs of who is in the sum; `said` is a digest of all that came before."""
        return _text("arrived", *self._where(letter), said, sorted(members), sorted(arrived))

    def letter_digest(self, letter: Letter, message: bytes, members: Collection[int]) -> str:
        """The same for the same question in the same company."""
        question = (letter.method, letter.after, digest(message))
        return digest(_text("letter", *self._where(letter), *question, sorted(members)))

    def _where(self, letter: Letter) -> tuple[Any, ...]:
        return self.run, self.told, letter.round, letter.exchange


def circle_of(run: str, tables: Any, facts: dict[str, Any], body: bytes) -> Circle:
    """The circle that `begin` describes; `facts` are those that all sites get."""
    told = digest(_text("circle", tables, facts, digest(body)))
    return Circle(run, tuple(facts["names"]), told)


def digest(data: bytes) -> str:
    """A digest of some bytes."""
    return hashlib.sha256(data).hexdigest()


def _text(purpose: str, *parts: Any) -> bytes:
    """The text to sign; texts for different purposes differ, so no signature serves two."""
    return json.dumps(["fedloom secure sum", purpose, *parts], sort_keys=True).encode()
