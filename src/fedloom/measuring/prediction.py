"""Predict with a vertical model, of which every party has a share.

`save_shares` writes each party's share into a folder of that party's own. `joint_predict` lets
every party read its share there and answer one exchange, in which only parts of scores travel. A
fusion model is the label party's share. Every share names the parties of the run in their order,
because scores of fewer or other parties would look right and be wrong.
"""

from collections.abc import Mapping, Sequence
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
_PARTIES = "parties"  # of what a share says: the names of all parties of its run, in their order


def save_shares(result: Result, folder: str | Path) -> None:
    """Write each party's share of a vertical model to `folder`/PARTY/share.safetensors.

    A fusion model goes to `folder`/label party/share.safetensors.

    Args:
        result: The result of a vertical run. One of the simulator has all shares; one of a
            federation has only the fusion model, since each party's share is in its own kit.
        folder: The folder in which each party gets a folder of its own.
    """
    known = {*result.client_names, LABEL_PARTY}
    if not isinstance(result.model, dict) or not known.issuperset(result.model):
        raise DataError("save_shares needs the result of a vertical run: a share for each party.")
    for name in result.model:
        if Path(name).name != name or name in ("", ".."):
            raise DataError(
                f"save_shares: a party's name must be that of one folder; got {name!r}. Ask "
                f"whoever made this result what it is."
            )
    for name, share in result.model.items():
        facts = {_PARTIES: list(result.client_names)}
        wire.write_file(Path(folder) / name / SHARE, share, facts)


def joint_predict(problem: Vertical, features: Mapping[str, Any], folder: str | Path) -> np.ndarray:
    """Score new rows with the shares of all parties of a vertical model.

    Args:
        problem: The problem that was solved.
        features: The features of the new rows at each party, by the party's name; exactly the
            parties of the run. Row k must be the same person at every party. They are as the run's
            own were: where those were standardised, so are these, by the same means and deviations,
            which shares do not hold.
        folder: The folder with the shares (and the fusion model, if there is one), as
            `save_shares` writes it. Shares from a federation, or from older versions of fedloom, do
            not name the parties of the run; then they are all that have a share in this folder.

    Returns:
        One score for each row, or for several classes one for each row and class.
    """
    fused = () if problem.fusion is None else (LABEL_PARTY,)
    features = _of_all_parties(features, (*fused, *features), Path(folder))
    rows = _number_of_rows(features)
    fusion = _read(Path(folder) / LABEL_PARTY / SHARE)[0] if fused else None
    shares = {name: _read(Path(folder) / name / SHARE)[0] for name in features}
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


def _read(path: Path) -> tuple[Any, dict[str, Any]]:
    if not path.exists():
        raise DataError(f"{path}: there is no share of this party. Write it with save_shares.")
    arrays, facts = wire.read_file(path)
    return nested(arrays, namespaces=False), facts


def _of_all_parties(
    given: Mapping[str, Any], owners: Sequence[str], folder: Path
) -> dict[str, Any]:
    """The parties' features in the order of the run; refused where one is missing or too many."""
    there = [name for name in owners if (folder / name / SHARE).exists()]
    facts = {name: _read(folder / name / SHARE)[1] for name in there}
    told = [
        (facts[name][_PARTIES], f"with whom the share of {name!r} was trained")
        for name in there
        if _PARTIES in facts[name]
    ]
    if not told:
        held = sorted({path.parent.name for path in folder.glob(f"*/{SHARE}")} - {LABEL_PARTY})
        told = [(held, f"whose shares lie in {folder}")]
        if not held:
            raise DataError(f"{folder}: there are no shares. Write them with save_shares.")
    for parties, whence in told:
        if set(given) != set(parties):
            raise DataError(
                f"features must be given for {', '.join(parties)}, {whence}; got "
                f"{', '.join(given) or 'none'}. Pass the features of exactly these parties."
            )
    return {name: given[name] for name in told[0][0]}


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
