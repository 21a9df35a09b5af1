"""Predict with a vertical model whose shares lie with their parties.

`save_shares` writes each party's share into a folder of that party's own. `joint_predict` lets
every party read its share there and answer one exchange, in which only parts of scores travel. A
fusion model is the label party's share, and says which parties' parts it takes, in which order.
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
from fedloom.problems.vertical import LABEL_PARTY, Vertical

SHARE = "share.safetensors"  # a party's share of a model


def save_shares(result: Result, folder: str | Path) -> None:
    """Write every party's share of a vertical model to `folder`/PARTY/share.safetensors.

    A fusion model goes to `folder`/label party/share.safetensors.

    Args:
        result: Of a vertical run in the simulator, which has all shares; of a federation it has the
            fusion model alone.
        folder: Under which each party has a folder of its own.
    """
    if not isinstance(result.model, dict):
        raise DataError("save_shares needs the result of a vertical run: a share for each party.")
    for name, share in result.model.items():
        facts = {"parties": list(result.client_names)} if name == LABEL_PARTY else None
        wire.write_file(Path(folder) / name / SHARE, share, facts)


def joint_predict(problem: Vertical, features: Mapping[str, Any], folder: str | Path) -> np.ndarray:
    """The scores of new rows: a number each, or one for each class.

    Args:
        problem: What was optimised.
        features: Each party's features of the same rows, by the party's name.
        folder: Where `save_shares` put the shares, and the label party's fusion model if there is
            one.
    """
    fusion = None
    if problem.fusion is not None:
        fusion, facts = _read(Path(folder) / LABEL_PARTY / SHARE)
        features = _in_order(features, facts["parties"])
    shares = {name: _read(Path(folder) / name / SHARE)[0] for name in features}
    head = jax.tree.leaves(next(iter(shares.values())))[0]
    classes = head.shape[-1] if problem.loss == "softmax" else 2
    if fusion is not None and problem.loss == "softmax":
        classes = _classes(problem, fusion, len(shares))
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
        if fusion is not None:
            layout = problem.fusion_layout(len(shares), classes, "float64")
            assert layout is not None
            network.hub = network.hub._replace(fusion=layout.ravel(fusion))
        network.step()
        return np.asarray(network.hub.scores)


def _read(path: Path) -> tuple[Any, dict[str, Any]]:
    if not path.exists():
        raise DataError(f"{path}: there is no share of this party. Write it with save_shares.")
    arrays, facts = wire.read_file(path)
    return nested(arrays, namespaces=False), facts


def _in_order(features: Mapping[str, Any], parties: list[str]) -> dict[str, Any]:
    """The parties' features in the order in which the fusion model takes their parts."""
    if set(features) != set(parties):
        raise DataError(
            f"features must be given for {', '.join(parties)}, with whom the fusion model was "
            f"trained; got {', '.join(features) or 'none'}. Pass the features of all of them."
        )
    return {name: features[name] for name in parties}


def _classes(problem: Vertical, fusion: Any, parties: int) -> int:
    """How many classes a fusion model tells apart: its size grows by as much with each of them."""
    layouts = [problem.fusion_layout(parties, classes, "float32") for classes in (2, 3)]
    two, three = (layout.size if layout else 0 for layout in layouts)
    size = sum(leaf.size for leaf in jax.tree.leaves(fusion))
    classes = 2 + (size - two) // (three - two)
    if size < two or (size - two) % (three - two):
        raise DataError(
            f"the label party's share has {size} numbers, which is no fusion model of this "
            f"problem. Pass the problem with which it was trained."
        )
    return classes
