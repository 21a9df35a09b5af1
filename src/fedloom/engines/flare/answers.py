"""What a site has answered in a run: the same question gets the same answer, another one none.

A server that could ask once more, with another model or with the same one, would learn from the
difference what noise hides, or average the noise away. Places that were answered are therefore kept
in the site's kit, so that neither a restart of the site nor one of the server forgets them. The
answers themselves are kept as long as an honest server may ask for them again: those of the running
round and of the one before.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from fedloom.errors import RefusedError
from fedloom.files import write_bytes, write_text

_INDEX = "answered.json"


class Answers:
    """The answers of a site in one run."""

    def __init__(self, folder: Path):
        self.folder = folder
        file = folder / _INDEX
        self._asked: dict[str, str] = (
            json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        )

    def to(self, round: int, what: str, question: bytes, answer: Callable[[], bytes]) -> bytes:
        """The answer to a question of a round: made now, or the one that was given before."""
        place = f"{round}-{what}"
        asked = hashlib.sha256(question).hexdigest()
        file = self.folder / f"{place}.answer"
        if place not in self._asked:
            given = answer()
            self._asked[place] = asked
            write_bytes(file, given)
            write_text(self.folder / _INDEX, json.dumps(self._asked))
            self._forget_before(round - 1)
            return given
        if self._asked[place] != asked:
            raise RefusedError(
                f"{what} of round {round} was asked otherwise before, and two answers would tell "
                f"more than one. Go on with the next round."
            )
        if not file.exists():
            raise RefusedError(
                f"{what} of round {round} was answered long ago. Go on with the next round."
            )
        return file.read_bytes()

    def _forget_before(self, round: int) -> None:
        for file in self.folder.glob("*.answer"):
            if int(file.name.partition("-")[0]) < round:
                file.unlink(missing_ok=True)
