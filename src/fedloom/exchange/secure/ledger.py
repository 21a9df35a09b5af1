"""What a site has sent in the secure sums of a run, so that it is in no second sum with others.

Two sums of the same parts over other sites differ by single parts: S(0123) - S(012) is the part of
site 3. So a site notes, before its part leaves, the question and the members; and before it agrees
to a sum, who is in it. The same exchange with anything else is refused for ever. The same again
gets the same part, from the file: noise that was drawn anew could be averaged away.

Rounds go forward only, so that the files of the last round suffice.
"""

import json
import os
import re
from pathlib import Path

from fedloom.errors import UnopenedError
from fedloom.exchange.hub import Tag
from fedloom.files import write_file

_NAME = re.compile(r"sum-(\d+)-(\d+)")


class Ledger:
    """A file for each exchange of the running round: a line of facts, then the site's part."""

    def __init__(self, folder: Path):
        self.folder = folder

    def part(self, place: Tag, question: str) -> bytes | None:
        """What was said to this question; None if nothing was. Raises where it was another."""
        self._check_running(place)
        facts, part = self._read(place)
        if not facts:
            return None
        if facts["question"] != question:
            raise UnopenedError(
                f"it has answered exchange {place[1]} of round {place[0]} already, to another "
                f"question or among other sites, and two such sums would give single replies away"
            )
        return part

    def note_part(self, place: Tag, question: str, part: bytes) -> None:
        """Before a part leaves."""
        self._write(place, {"question": question}, part)
        for old in self._places():
            if old[0] < place[0]:
                self._file(old).unlink()

    def note_arrived(self, place: Tag, arrived: str) -> None:
        """Before this site agrees to a sum. Raises where it has agreed to another one.

        Another job of the run may have gone on since the part was noted, and what this site agreed
        to in that round is forgotten: nothing more is agreed to there.
        """
        self._check_running(place)
        facts, part = self._read(place)
        if facts.get("arrived", arrived) != arrived:
            raise UnopenedError(
                f"it has agreed to another sum in exchange {place[1]} of round {place[0]}, and two "
                f"sums over other sites would give single replies away"
            )
        self._write(place, {**facts, "arrived": arrived}, part)

    def _check_running(self, place: Tag) -> None:
        newest = max((round for round, _ in self._places()), default=place[0])
        if place[0] < newest:
            raise UnopenedError(
                f"it has taken part in round {newest}, and takes part in none before that again"
            )

    def _read(self, place: Tag) -> tuple[dict[str, str], bytes]:
        try:
            data = self._file(place).read_bytes()
        except FileNotFoundError:
            return {}, b""
        line, _, part = data.partition(b"\n")
        return json.loads(line), part

    def _write(self, place: Tag, facts: dict[str, str], part: bytes) -> None:
        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                file.write(json.dumps(facts).encode() + b"\n" + part)
                file.flush()
                os.fsync(file.fileno())  # what has left must be known after a power cut, too

        write_file(self._file(place), write)

    def _places(self) -> list[Tag]:
        named = [_NAME.fullmatch(file.name) for file in self.folder.glob("sum-*")]
        return [(int(name[1]), int(name[2])) for name in named if name]

    def _file(self, place: Tag) -> Path:
        return self.folder / f"sum-{place[0]}-{place[1]}"
