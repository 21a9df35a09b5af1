"""Predict with a vertical model whose shares lie with their parties.

`save_shares` writes each party's share into a folder of that party's own. `joint_predict` lets
every party read its share there and answer one exchange, in which only parts of scores travel.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.algorithms.vertical.scoring import Scoring
from fedloom.data.parties import Parties
from fedloom.errors import DataError
from fedloom.exchange import wire
from fedloom.exchange.in_process import InProcess
from fedloom.measuring.result import Result, nested
from fedloom.problems.vertical import Vertical

SHARE = "share.safetensors"  # a party's share of a model


def save_shares(result: Result, folder: str | Path) -> None:
    """Write every party's share of a vertical model to `folder`/PARTY/share.safetensors.

    Args:
        result: Of a vertical run in the simulator, which has all shares.
        folder: Under which each party has a folder of its own.
    """
    if not isinstance(result.model, dict):
        raise DataError("save_shares needs the result of a vertical run: a share for each party.")
    for name, share in result.model.items():
        wire.write_file(Path(folder) / name / SHARE, share)


def joint_predict(problem: Vertical, features: Mapping[str, Any], folder: str | Path) -> np.ndarray:
    """The scores of new rows: a number each, or one for each class.

    Args:
        problem: What was optimised.
        features: Each party's features of the same rows, by the party's name.
        folder: Where `save_shares` put the shares.
    """
    shares = {name: _read(Path(folder) / name / SHARE) for name in features}
    head = jax.tree.leaves(next(iter(shares.values())))[0]
    classes = head.shape[-1] if problem.loss == "softmax" else 2
    rows = next(iter(features.values())).shape[0]
    parties = Parties(
        tuple(features.values()), np.zeros(rows, np.int32), tuple(features), np.arange(classes)
    )
    with jax.enable_x64(True):
        network = InProcess(Scoring(), problem, parties, batch_size=None, precision="float64")
        for name, site in zip(features, network.sites, strict=True):
            share = site.group.layout.ravel(shares[name])
            if share.shape != site.state.shape:
                raise DataError(
                    f"party {name!r}: its share has {share.size} numbers, and its features need "
                    f"{site.state.size}. Pass the columns with which it was trained."
                )
            site.first = share.astype(site.state.dtype)
        network.step()
        return np.asarray(network.hub.scores)


def _read(path: Path) -> Any:
    if not path.exists():
        raise DataError(f"{path}: there is no share of this party. Write it with save_shares.")
    return nested(wire.read_file(path)[0], namespaces=False)
