"""States in files, one for each (round, exchange), so that they outlive a site's process."""

import logging
import re
from pathlib import Path

from fedloom.errors import DataError, WireError
from fedloom.exchange import array_files, wire
from fedloom.exchange.hub import Tag
from fedloom.types import Tree

log = logging.getLogger("fedloom")
_NAME = re.compile(r"(\d+)-(\d+)\.safetensors")


class Folder:
    """A folder of states."""

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
        arrays, facts = array_files.read(file)
        if facts.get("tag") != list(tag):
            raise DataError(f"{file}: is the state after {facts.get('tag')}. Name it so again.")
        return wire.from_named(arrays, like)

    def put(self, tag: Tag, state: Tree) -> None:
        """Write a state: whole, or not at all."""
        array_files.write(self._file(tag), state, {"tag": tag})

    def drop(self, tag: Tag) -> None:
        """Delete a state."""
        self._file(tag).unlink(missing_ok=True)

    def _file(self, tag: Tag) -> Path:
        return self.path / f"{tag[0]}-{tag[1]}.safetensors"
