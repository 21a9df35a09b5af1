"""Predict with a vertical model, of which every party has a share.

`joint_predict` lets every party read its share and answer one exchange, in which only parts of
scores travel. From tables each party first makes features by the preparation in its own share.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fedloom.data.alignment import align
from fedloom.deploy import answers
from fedloom.deploy.shares import SHARE, Share, read_share, read_shares
from fedloom.errors import DataError
from fedloom.measuring.prediction import joint_scores
from fedloom.preparation.of_party import PartyPreparation
from fedloom.problems.vertical import LABEL_PARTY, Vertical

if TYPE_CHECKING:
    import polars as pl

Told = tuple[tuple[str, ...], str]  # the parties of a run, and from where that is known


@overload
def joint_predict(
    problem: Vertical, features: "Mapping[str, str | Path | pl.DataFrame]", folder: str | Path
) -> "pl.DataFrame": ...


@overload
def joint_predict(problem: Vertical, features: Mapping[str, Any], folder: str | Path) -> Any: ...


def joint_predict(problem: Vertical, features: Mapping[str, Any], folder: str | Path) -> Any:
    """Predict new rows with the shares of all parties of a vertical model.

    Warns, for tables, of people whom a party lacks, who get no prediction, and of words that no
    training row had.

    Args:
        problem: The problem that was solved.
        features: For exactly the parties of the run, by the party's name: a table of new people
            with the id column (a file, or a frame of Polars or pandas), or the array of their
            features. Row k of arrays must be the same person at every party, and they are encoded
            as the run's own were; rows of tables are joined by the id.
        folder: The folder with the shares, as `save_shares` writes it, and with the label party's
            if there is a fusion network, or for tables. Shares of older versions of fedloom do not
            name the parties of the run; then they are all that have a share in this folder.

    Returns:
        For tables, a table with the id, a column `prediction`, and for a classification a column
        `probability of CLASS` for each class, or `score` if scores are not probabilities. For
        arrays one score for each row, or for several classes one for each row and class.
    """
    place = Path(folder)
    shares = read_shares(place, features)
    features = _in_order(features, _told_by(shares) or _lying_in(place))
    for name in (*([LABEL_PARTY] if problem.fusion else []), *features):
        shares[name] = shares.get(name) or read_share(place / name / SHARE)  # says what is missing
    tables = [name for name, value in features.items() if _is_table(value)]
    if not tables:
        return joint_scores(problem, {n: share.model for n, share in shares.items()}, features)
    if len(tables) < len(features):
        raise DataError(
            f"features must be tables for all parties, or arrays for all; got tables for "
            f"{', '.join(tables)} alone. Pass the tables of the others too."
        )
    said, remarks = predicted_together(problem, features, shares, str(folder))
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    return said


def predicted_together(
    problem: Vertical, tables: Mapping[str, Any], shares: Mapping[str, Share], where: str
) -> "tuple[pl.DataFrame, list[str]]":
    """The predictions for the people in all of the tables, and remarks on those who are not.

    Args:
        problem: The problem that was solved.
        tables: Of exactly the parties of the run, in its order.
        shares: Of the parties, and of the label party.
        where: What messages call the place of the shares.
    """
    import polars as pl

    own = {name: _preparation(name, shares, where) for name in tables}
    read = {name: own[name].read(name, table) for name, table in tables.items()}
    ids = {name: frame[own[name].id] for name, (_, frame) in read.items()}
    joined = align({name: column.to_list() for name, column in ids.items()}, how="plain")
    features, remarks = {}, []
    if any(joined.dropped.values()):
        remarks.append(f"{joined.report()}. Only people in all tables are predicted")
    for name, (source, frame) in read.items():
        rows = joined.rows[name]
        features[name] = own[name].encode(source, frame)[rows]
        there = own[name].with_parts(source, frame)[rows]
        strange = [column.strange(there[column.name]) for column in own[name].columns]
        remarks += [f"{name}: {remark}" for remark in strange if remark is not None]
    scores = joint_scores(problem, {n: share.model for n, share in shares.items()}, features)
    classes = _classes(problem, scores, shares, where)
    said = answers.columns(scores, problem.link, classes)
    first = next(iter(tables))
    people = ids[first][joined.rows[first]]
    answers.check_names(read[first][0], [people.name], said)
    return pl.DataFrame({people.name: people, **said}), remarks


def _told_by(shares: Mapping[str, Share]) -> list[Told]:
    """Who the parties of the run are, by each share that says so."""
    return [
        (share.parties, f"with whom the share of {name!r} was trained")
        for name, share in shares.items()
        if share.parties is not None
    ]


def _in_order(given: Mapping[str, Any], told: Sequence[Told]) -> dict[str, Any]:
    """What is given, in the order of the run; refused where a party is missing or too many."""
    for parties, whence in told:
        if set(given) != set(parties):
            raise DataError(
                f"features must be given for {', '.join(parties)}, {whence}; got "
                f"{', '.join(given) or 'none'}. Pass the features of exactly these parties."
            )
    return {name: given[name] for name in told[0][0]}


def _lying_in(folder: Path) -> list[Told]:
    held = sorted({path.parent.name for path in folder.glob(f"*/{SHARE}")} - {LABEL_PARTY})
    if not held:
        raise DataError(f"{folder}: there are no shares. Write them with save_shares.")
    return [(tuple(held), f"whose shares lie in {folder}")]


def _is_table(value: Any) -> bool:
    return isinstance(value, str | Path) or hasattr(value, "columns")


def _preparation(name: str, shares: Mapping[str, Share], where: str) -> PartyPreparation:
    own = shares[name].preparation
    if own is None:
        raise DataError(
            f"the share of {name!r} in {where} does not say how a table becomes features: its run "
            f"was on arrays, or with an older fedloom. Give arrays of features for all parties, or "
            f"run it anew on tables."
        )
    return own


def _classes(
    problem: Vertical, scores: np.ndarray, shares: Mapping[str, Share], where: str
) -> list[Any] | None:
    """What the classes are called; None of a regression."""
    held = shares.get(LABEL_PARTY)
    if held is None or held.labels is None:
        raise DataError(
            f"the share of the label party in {where} must say what the classes are called; "
            f"{'there is none' if held is None else 'it does not'}. Bring it to "
            f"{LABEL_PARTY}/{SHARE}: save_shares writes it after a simulation, and after a run "
            f"over a network it is in the server's kit, shares/RUN/{SHARE}."
        )
    classes = held.labels.classes
    named, apart = len(classes or ()), scores.shape[1] if scores.ndim == 2 else 2
    if named not in ((0, 2) if problem.loss == "squared" else (apart,)):
        raise DataError(
            f"the share of the label party in {where} names {named} classes, and the model tells "
            f"{apart} apart. Bring the shares of one and the same run."
        )
    return classes
