"""Arrays in a file: safetensors with a checksum, and plain facts about them beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from fedloom import checksums
from fedloom.exchange import wire
from fedloom.files import write_bytes
from fedloom.types import Tree

Facts = dict[str, Any]
_KEY = "fedloom"  # of the metadata; one key only, because safetensors orders keys at random


def write(path: Path, tree: Tree, facts: Facts | None = None, *, shared: bool = False) -> None:
    """Write the arrays of a pytree, by name, and what is not an array."""
    about = f"{checksums.BLANK} {json.dumps(facts or {})}"
    data = save(wire.named(tree), metadata={_KEY: about})
    write_bytes(path, checksums.seal(data), shared=shared)


def read(path: Path) -> tuple[dict[str, np.ndarray], Facts]:
    """The arrays by name, and the facts."""
    data = checksums.unseal(path)
    with checksums.understood(path):
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about: str = header["__metadata__"][_KEY]
        return wire.read(data), json.loads(about.partition(" ")[2])
