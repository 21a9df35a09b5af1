"""Clients in a file, for workers in other processes: their rows, names and labels.

Only the owner can read the file, and the process that wrote it removes it when all runs have ended.
"""

from pathlib import Path
from typing import Any

import numpy as np

from fedloom import checksums
from fedloom.data.clients import Clients
from fedloom.data.normalising import Normalisation
from fedloom.data.parties import Holders, Parties
from fedloom.exchange import wire
from fedloom.preparation.encoding import Preparation
from fedloom.preparation.of_party import PartyPreparation
from fedloom.rows import Rows

_SPARSE = ("data", "indices", "indptr")  # the arrays of a scipy CSR array
Arrays = dict[str, np.ndarray]


def write(path: Path, holders: Holders) -> None:
    """Keep clients or parties."""
    arrays: Arrays = {}
    facts: dict[str, Any] = {"names": list(holders.names), "sparse": {}}
    if holders.labels is not None:
        facts["labels"] = holders.labels.tolist()
        facts["labels_type"] = holders.labels.dtype.str
    for name, block in _blocks(holders).items():
        if hasattr(block, "indptr"):
            facts["sparse"][name] = list(block.shape)
            arrays |= {f"{name}-{part}": getattr(block, part) for part in _SPARSE}
        else:
            arrays[name] = np.asarray(block)
    if isinstance(holders, Parties):
        facts |= {"parties": True, "alignment": holders.alignment}
        facts["preparations"] = {n: own.as_dict() for n, own in holders.preparations.items()}
    else:
        facts |= {"parties": False, "left_out": holders.left_out}
        if holders.preparation is not None:
            facts["preparation"] = holders.preparation.as_dict()
    wire.write_file(path, arrays, facts)


def read(path: Path) -> Holders:
    """The clients or parties that were kept."""
    arrays, facts = wire.read_file(path)
    with checksums.understood(path):
        blocks = arrays | {name: _sparse(arrays, name, *s) for name, s in facts["sparse"].items()}
        labels = None
        if "labels" in facts:
            labels = np.array(facts["labels"], np.dtype(facts["labels_type"]))
        names, tested = tuple(facts["names"]), "test_y" in blocks
        if facts["parties"]:
            return Parties(
                _numbered(blocks, "features", len(names)),
                blocks["y"],
                names,
                labels,
                _numbered(blocks, "test_features", len(names)) if tested else None,
                blocks.get("test_y"),
                facts["alignment"],
                {n: PartyPreparation.from_dict(v) for n, v in facts["preparations"].items()},
            )
        prepared, scaled = facts.get("preparation"), "mean" in blocks
        return Clients(
            Rows(blocks["x"], blocks["y"]),
            blocks["sizes"],
            names,
            labels,
            Rows(blocks["test_x"], blocks["test_y"]) if tested else None,
            blocks["test_sizes"],
            None if prepared is None else Preparation.from_dict(prepared),
            facts["left_out"],
            Normalisation(blocks["mean"], blocks["deviation"]) if scaled else None,
        )


def _blocks(holders: Holders) -> dict[str, Any]:
    """All arrays by name, some of them sparse."""
    if isinstance(holders, Parties):
        tested = holders.test_features
        blocks = {f"features-{i}": block for i, block in enumerate(holders.features)}
        blocks |= {f"test_features-{i}": block for i, block in enumerate(tested or ())}
        blocks |= {} if holders.test_y is None else {"test_y": holders.test_y}
        return blocks | {"y": holders.y}
    blocks = {"x": holders.train.x, "y": holders.train.y}
    blocks |= {"sizes": holders.sizes, "test_sizes": holders.test_sizes}
    if holders.test is not None:
        blocks |= {"test_x": holders.test.x, "test_y": holders.test.y}
    if holders.normalisation is not None:
        blocks |= holders.normalisation._asdict()
    return blocks


def _numbered(blocks: dict[str, Any], name: str, count: int) -> tuple[Any, ...]:
    return tuple(blocks[f"{name}-{i}"] for i in range(count))


def _sparse(arrays: Arrays, name: str, *shape: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array(tuple(arrays[f"{name}-{part}"] for part in _SPARSE), shape=shape)
