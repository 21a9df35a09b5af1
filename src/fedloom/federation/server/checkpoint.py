"""What the server keeps after each round: one file, whole or not there, to go on from."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from fedloom import checksums
from fedloom.errors import DataError, MissingDataError
from fedloom.exchange import wire
from fedloom.measuring.result import listed, nested
from fedloom.types import Tree


@dataclasses.dataclass
class Checkpoint:
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


def save(progress: Checkpoint, path: Path) -> None:
    """Write a checkpoint in the place of the last one."""
    facts = {
        field.name: getattr(progress, field.name)
        for field in dataclasses.fields(progress)
        if field.name not in _ARRAYS
    }
    tree = {name: getattr(progress, name) for name in _ARRAYS}
    wire.write_file(path, tree, {"run": path.parent.name, "progress": facts})


def load(path: Path) -> Checkpoint | None:
    """The last checkpoint; None where no round was completed."""
    try:
        arrays, facts = wire.read_file(path)
    except MissingDataError:
        return None
    if facts.get("run") != path.parent.name:
        raise DataError(
            f"{path}: is the checkpoint of {facts.get('run')!r}, another run. Bring the right one "
            f"back, or submit the run anew without --resume."
        )
    with checksums.understood(path):
        told = facts["progress"]
        # The opening and rounds before which all were lost show nothing, and so have no arrays.
        shown = {name: arrays.pop(name) for name in list(arrays) if name.startswith("info/")}
        info = {name.removeprefix("info/"): array for name, array in shown.items()}
        tree = nested(arrays)
        metrics = dict(vars(tree.client_metrics)) if hasattr(tree, "client_metrics") else {}
        return Checkpoint(
            **told,
            hub=getattr(tree, "hub", ()),
            info=listed(info, len(told["rows"])),
            client_metrics=metrics,
        )
