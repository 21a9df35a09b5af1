"""Checkpoints: the result so far in one file, which is replaced completely or not at all."""

from pathlib import Path

import numpy as np

from fedloom import checksums
from fedloom.errors import DataError
from fedloom.exchange import wire
from fedloom.measuring.result import Result, listed, nested

_FORMAT = 1


def write(path: Path, result: Result) -> None:
    """Write a checkpoint: the arrays by name, and all that is not an array as JSON beside them."""
    tree = {
        "model": result.model,
        "state": result.state,
        "info": list(result.info),
        "metrics": result.client_metrics,
    }
    about = {
        "format": _FORMAT,
        "rows": list(result.rows),
        "names": list(result.client_names),
        "status": result.status,
        "about": result.about,
        "holdings": {name: np.asarray(c).tolist() for name, c in result.holdings.items()},
    }
    wire.write_file(path, tree, about)


def read(path: Path) -> Result:
    """Read a checkpoint again."""
    arrays, about = wire.read_file(path)
    if about.get("format") != _FORMAT:
        raise DataError(
            f"{path} was written in another format than {_FORMAT}. "
            f"Resume with the fedloom version that wrote it, or start anew in another folder."
        )

    def part(name: str) -> dict:
        prefix = f"{name}/"
        return {key[len(prefix) :]: a for key, a in arrays.items() if key.startswith(prefix)}

    with checksums.understood(path):
        return Result(
            model=nested(part("model"), namespaces=False),
            state=nested(part("state")),
            rows=about["rows"],
            client_metrics=part("metrics"),
            client_names=about["names"],
            info=listed(part("info"), len(about["rows"])),
            status=about["status"],
            about=about["about"],
            holdings=about["holdings"],
        )
