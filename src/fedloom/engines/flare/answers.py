"""What a site has answered in a run: the same question gets the same answer, another one none.

A server that could ask once more, with another model or with the same one, would learn from the
difference what noise hides, or average the noise away. Places that were answered are therefore kept
in the site's kit, so that neither a restart of the site nor one of the server forgets them. The
answers themselves are kept as long as an honest server may ask for them again: those of the running
round and of the one before.
"""

from collections.abc import Callable
from pathlib import Path

from fedloom.checksums import digest, read_json, unchanged, write_json
from fedloom.errors import RefusedError
from fedloom.files import write_bytes

_INDEX = "answered.json"


class Answers:
    """The answers of a site in one run."""

    def __init__(self, folder: Path):
        self.folder = folder
        index = folder / _INDEX
        known = read_json(index) if index.exists() else {"places": {}}
        self._places: dict[str, list[str]] = known["places"]  # digests of question and answer

    def to(self, round: int, what: str, question: bytes, answer: Callable[[], bytes]) -> bytes:
        """The answer to a question of a round: made now, or the one that was given before."""
        place = f"{round}-{what}"
        asked = digest(question)
        file = self.folder / f"{place}.answer"
        if place not in self._places:
            given = answer()
            self._places[place] = [asked, digest(given)]
            write_bytes(file, given)
            write_json(self.folder / _INDEX, {"places": self._places})
            self._forget_before(round - 1)
            return given
        before, given_then = self._places[place]
        if before != asked:
            raise RefusedError(
                f"{what} of round {round} was asked otherwise before, and two answers would tell "
                f"more than one. Go on with the next round."
            )
        if not file.exists():
            raise RefusedError(
                f"{what} of round {round} was answered long ago. Go on with the next round."
            )
        return unchanged(file, given_then)

    def _forget_before(self, round: int) -> None:
        for file in self.folder.glob("*.answer"):
            if int(file.name.partition("-")[0]) < round:
                file.unlink(missing_ok=True)
