"""A site's answers in a run: the same question gets the same answer, a different one is refused.

If a server could ask again, with the same model or another one, it could average the noise away, or
learn from the difference what the noise hides. Answers are therefore kept in the site's kit, where
they survive restarts of the site and of the server. An honest server goes back by at most one
round; answers of older rounds are deleted, and those rounds are never answered again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedloom.checksums import digest, read_json, unchanged, write_json
from fedloom.errors import RefusedError
from fedloom.files import locked, write_bytes

_INDEX = "answered.json"


class Answers:
    """The answers of a site in one run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def to(self, round: int, what: str, question: bytes, answer: Callable[[], bytes]) -> bytes:
        """The answer to a question of a round: made now, or the one that was given before."""
        with locked(self.folder):  # two jobs of one run may be here at a time
            index = self.folder / _INDEX
            known: dict[str, Any] = {"first": 0, "places": {}}
            if index.exists():
                known = read_json(index)
            self._first: int = known["first"]  # the oldest round that is still answered
            self._places: dict[str, list[str]] = known["places"]  # digests of question and answer
            return self._to(round, what, question, answer)

    def _to(self, round: int, what: str, question: bytes, answer: Callable[[], bytes]) -> bytes:
        place = f"{round}-{what}"
        asked = digest(question)
        file = self.folder / f"{place}.answer"
        if round < self._first:
            raise RefusedError(
                f"{what} of round {round} is asked for too late. Go on with the next round."
            )
        if place not in self._places:
            given = answer()
            self._forget_before(round - 1)
            self._places[place] = [asked, digest(given)]
            write_bytes(file, given)
            write_json(self.folder / _INDEX, {"first": self._first, "places": self._places})
            return given
        before, given_then = self._places[place]
        if before != asked:
            raise RefusedError(
                f"{what} of round {round} was asked otherwise before, and two answers would tell "
                f"more than one. Go on with the next round."
            )
        return unchanged(file, given_then)

    def _forget_before(self, round: int) -> None:
        self._first = max(self._first, round)
        for place in [place for place in self._places if int(place.partition("-")[0]) < round]:
            del self._places[place]
            (self.folder / f"{place}.answer").unlink(missing_ok=True)
