"""States in files, one for each (round, exchange), so that they outlive a site's process."""

import re
from pathlib import Path
from typing import Any

from fedloom.engines import wire
from fedloom.engines.hub import Tag
from fedloom.errors import WireError
from fedloom.files import write_bytes

Tree = Any
_NAME = re.compile(r"(\d+)-(\d+)\.safetensors")


class Folder:
    """A folder of states."""

    def __init__(self, path: Path):
        self.path = path

    def read(self, like: Tree) -> dict[Tag, Tree]:
        """All states that are whole and fit the method; others are as good as lost."""
        states: dict[Tag, Tree] = {}
        for file in self.path.glob("*.safetensors"):
            named = _NAME.fullmatch(file.name)
            try:
                if named:
                    state = wire.decode(file.read_bytes(), like)
                    states[int(named[1]), int(named[2])] = state
            except WireError:
                continue
        return states

    def put(self, tag: Tag, state: Tree) -> None:
        """Write a state: whole, or not at all."""
        write_bytes(self._file(tag), wire.encode(state))

    def drop(self, tag: Tag) -> None:
        """Delete a state."""
        self._file(tag).unlink(missing_ok=True)

    def _file(self, tag: Tag) -> Path:
        return self.path / f"{tag[0]}-{tag[1]}.safetensors"
