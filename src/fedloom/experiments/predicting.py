"""Predictions for new rows of tables like those that a model was trained on."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.data.dates import with_parts
from fedloom.deploy.answers import PROBABILITY
from fedloom.deploy.deployed import Deployed, read_rows
from fedloom.errors import DataError
from fedloom.experiments.taking import is_vertical, opened, preparation_of, problem_of, taken
from fedloom.experiments.vertical_runs import predicted_people
from fedloom.measuring.result import Result
from fedloom.preparation import Preparation, tables
from fedloom.problems import Problem

if TYPE_CHECKING:
    import polars as pl


def predict(
    model: Result | Deployed | str | Path,
    table: "str | Path | pl.DataFrame | Mapping[str, str | Path | pl.DataFrame]",
    *,
    problem: Problem | None = None,
    site: str | None = None,
    keep: Sequence[str] = (),
) -> "pl.DataFrame":
    """Predict the rows of a table with a model that was trained on files of sites.

    Warns of words that no training row had and of gaps in columns that had none, with the number
    of such rows, of counts that are at an exposure of 1, and, after training with `class_weights`,
    that the columns of probabilities are only an order of the rows.

    Args:
        model: A result, the folder of a run, or a model that was saved or exported on its own.
        table: A CSV or Parquet file, or a Polars frame, with the columns of the training files.
            After a vertical run a folder or pattern of files, named as the parties' files were, or
            each party's file or frame by the party's name.
        problem: The problem that was solved; None: the one in the run's settings file.
        site: The site whose own model is used; None: the hub's model.
        keep: Columns of the table, such as an id, to put before the predictions.

    Returns:
        The kept columns, a column `prediction` (of `cox` one `log hazard ratio`), and for a
        classification a column `probability of CLASS` for each class, or `score` if scores are not
        probabilities. After a vertical run the id of those whom all tables have comes first; who is
        missing in one of them is warned of.
    """
    said, unlike = predicted(model, table, problem=problem, site=site, keep=keep)
    for remark in unlike:
        warnings.warn(remark, stacklevel=2)
    return said


def predicted(
    model: Result | Deployed | str | Path,
    table: "str | Path | pl.DataFrame | Mapping[str, str | Path | pl.DataFrame]",
    *,
    problem: Problem | None = None,
    site: str | None = None,
    keep: Sequence[str] = (),
    trust: Sequence[str] = (),
) -> "tuple[pl.DataFrame, list[str]]":
    """The predictions, and remarks on how the table differs from the training rows."""
    found, where = opened(model)
    if isinstance(found, Result) and is_vertical(found):
        return predicted_people(
            found, where, table, problem=problem, site=site, keep=keep, trust=trust
        )
    if isinstance(table, Mapping):
        raise DataError(
            f"{where} is of no vertical run, so that a row is one of a single table; got tables of "
            f"{', '.join(table)}. Pass one of them at a time."
        )
    if isinstance(found, Result) and not preparation_of(found):
        raise DataError(
            f"{where} does not say how tables become features: its data were not files of sites. "
            f"Run settings with [data] sites = ... first."
        )
    own = taken(model, site=site, problem=problem, trust=trust)
    if own.preparation is None:
        raise DataError(
            f"{where} is a packed model, which does not say how tables become features. "
            f"Give the folder of its run."
        )
    source, frame = read_rows(table, own.preparation, keep)
    said = own.predict_frame(source, frame, keep)
    unlike = remarks(own.preparation, with_parts(source, frame, own.preparation.dates))
    if isinstance(found, Result) and any(name.startswith(PROBABILITY) for name in said.columns):
        unlike += _of_weights(problem or problem_of(found, where, trust))
    return said, unlike


def _of_weights(problem: Problem) -> list[str]:
    if getattr(problem, "class_weights", None) is None:
        return []
    return [
        f"the run has class_weights, so that the columns {PROBABILITY!r} ... order rows, but are "
        f"no probabilities: the classes counted as if they were as frequent as the weights make "
        f"them. Run without class_weights for probabilities"
    ]


def remarks(preparation: Preparation, frame: "pl.DataFrame") -> list[str]:
    """How a table differs from the training rows: numbers of rows, never their values."""
    found = []
    if preparation.exposure is not None:
        found.append(
            f"predictions are counts at an exposure of 1; times the exposure, such as "
            f"{preparation.exposure!r}, they are those of the rows"
        )
    for column in preparation.columns:
        series = frame[column.name]
        if (strange := column.strange(series)) is not None:
            found.append(strange)
        gaps = int(tables.known(series).null_count())
        if gaps and not column.missing:
            counts = "the mean" if column.words is None else "none of the words"
            found.append(
                f"column {column.name!r}: {gaps} of {frame.height} rows have no value, as no "
                f"training row had; it counts as {counts}"
            )
    return found
