"""The scores of new rows by a vertical model, of which every party has a share.

Every party answers one exchange, in which only parts of scores travel. A fusion model is the label
party's share.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedloom.algorithms.vertical.scoring import Scoring
from fedloom.data.parties import Parties
from fedloom.errors import DataError
from fedloom.exchange.in_process import InProcess
from fedloom.problems.vertical import LABEL_PARTY, Vertical
from fedloom.types import Tree


def joint_scores(
    problem: Vertical, shares: Mapping[str, Tree], features: Mapping[str, Any]
) -> np.ndarray:
    """One score for each row, or for several classes one for each row and class.

    Args:
        problem: The problem that was solved.
        shares: The parties' shares by their names, and the fusion model, if there is one, as that
            of the label party.
        features: The features of the rows at each party, in the order of the run; row k is the
            same person at every party.
    """
    rows = _number_of_rows(features)
    fusion = None if problem.fusion is None else shares[LABEL_PARTY]
    shares = {name: shares[name] for name in features}
    head = jax.tree.leaves(next(iter(shares.values())))[0]
    classes = head.shape[-1] if problem.loss == "softmax" else 2
    if fusion is not None and problem.loss == "softmax":
        classes = _classes(problem, fusion, len(shares))
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


def _number_of_rows(features: Mapping[str, Any]) -> int:
    """How many rows there are, the same at every party."""
    counts = {name: block.shape[0] for name, block in features.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise DataError(
            f"all parties must have features of the same rows; got rows of {told}. "
            f"Align them with fl.data.align."
        )
    return next(iter(counts.values()))


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
