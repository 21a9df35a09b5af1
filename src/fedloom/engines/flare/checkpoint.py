"""What the server keeps after each round: one file, whole or not there, to go on from."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.engines import wire
from fedloom.engines.result import listed, nested
from fedloom.files import write_bytes

Tree = Any


@dataclasses.dataclass
class Progress:
    """How far a run has come."""

    round: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    ages: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # of the clients' states
    roster: dict[str, Any] = dataclasses.field(default_factory=dict)
    rows: list[dict[str, float]] = dataclasses.field(default_factory=list)
    client_metrics: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    hub: Tree = ()
    info: list[Tree] = dataclasses.field(default_factory=list)


_ARRAYS = ("hub", "info", "client_metrics")


def save(progress: Progress, path: Path) -> None:
    """Write a checkpoint in the place of the last one."""
    facts = {
        field.name: getattr(progress, field.name)
        for field in dataclasses.fields(progress)
        if field.name not in _ARRAYS
    }
    text = json.dumps(facts).encode()
    tree = {name: getattr(progress, name) for name in _ARRAYS}
    write_bytes(path, wire.encode({**tree, "facts": np.frombuffer(text, np.uint8)}))


def load(path: Path) -> Progress | None:
    """The last checkpoint; None where no round was completed."""
    try:
        arrays = wire.read(path.read_bytes())
    except FileNotFoundError:
        return None
    facts = json.loads(arrays.pop("facts").tobytes())
    shown = {name: arrays.pop(name) for name in list(arrays) if name.startswith("info/")}
    tree = nested(arrays)
    return Progress(
        **facts,
        hub=getattr(tree, "hub", ()),
        # The opening and rounds before which all were lost show nothing, and so have no arrays.
        info=listed({k.removeprefix("info/"): v for k, v in shown.items()}, len(facts["rows"])),
        client_metrics=dict(vars(tree.client_metrics)) if hasattr(tree, "client_metrics") else {},
    )
