"""What a trained model says of new rows, in the words of the tables that it was trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedloom.data.dialects import Dialect
from fedloom.data.frames import read_frame
from fedloom.deploy.deployed import Deployed
from fedloom.errors import DataError
from fedloom.experiments import building
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.loading import load
from fedloom.measuring.result import Result
from fedloom.preparation import Preparation
from fedloom.problems import Logistic, Multinomial, Personal, Problem, Supervised
from fedloom.types import Tree

if TYPE_CHECKING:
    import polars as pl


def predict(
    model: Result | str | Path,
    table: "str | Path | pl.DataFrame",
    *,
    problem: Problem | None = None,
) -> "pl.DataFrame":
    """Predict the rows of a table with the hub's model of a run on files of sites.

    Args:
        model: A result, or the folder of a run.
        table: A CSV or Parquet file, or a Polars frame, with the columns of the training files.
        problem: The problem that was solved; by default that of the run's settings file.

    Returns:
        A column `prediction` and, for classes, one column `probability of CLASS` for each, or
        `score` where the problem is not a likelihood.
    """
    import polars as pl

    result = model if isinstance(model, Result) else load(model)
    where = "the result" if isinstance(model, Result) else str(model)
    if isinstance(result, Deployed):
        raise DataError(
            f"{where} is a packed model, which does not say how tables become features. "
            f"Give the folder of its run."
        )
    preparation = _preparation(result, where)
    problem = problem or _problem(result, where)
    dialect = Dialect(encoding=preparation.encoding)
    if isinstance(table, pl.DataFrame):
        x = preparation.encode("the table", table)
    else:
        x = preparation.encode(str(table), read_frame(Path(table), dialect=dialect))
    dtype = jax.tree.leaves(result.model)[0].dtype
    return pl.DataFrame(answers(problem, result.model, x.astype(dtype), preparation.classes))


def answers(
    problem: Problem, model: Tree, x: np.ndarray, classes: list[Any] | None
) -> dict[str, Any]:
    """Columns of predictions for encoded rows."""
    scores = np.asarray(problem.predict(model, x), np.float64)
    scores = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
    if classes is None:
        return {"prediction": scores}
    if scores.ndim == 1:
        chosen = (scores > 0).astype(int)
    else:
        chosen = scores.argmax(axis=1)
    named = {"prediction": [classes[place] for place in chosen]}
    if not is_likelihood(problem):
        columns = [scores] if scores.ndim == 1 else list(scores.T)
        names = ["score"] if scores.ndim == 1 else [f"score of {label}" for label in classes]
        return named | dict(zip(names, columns, strict=True))
    shares = probabilities(scores)
    return named | {
        f"probability of {label}": shares[:, place] for place, label in enumerate(classes)
    }


def is_likelihood(problem: Problem) -> bool:
    """Whether the scores of a problem are logits."""
    if isinstance(problem, Supervised):
        return problem.loss == "cross_entropy"
    return isinstance(problem, Logistic | Multinomial | Personal)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """The probability of each class, from one logit for two classes or one for each class."""
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _preparation(result: Result, where: str) -> Preparation:
    saved = result.about.get("preparation")
    if saved is None and "alignment" in result.about:
        raise DataError(
            f"{where} is of a vertical run, whose shares lie with their parties. "
            f"Use fl.joint_predict with the shares that save_shares wrote."
        )
    if saved is None:
        raise DataError(
            f"{where} does not say how tables become features: its data were not files of sites. "
            f"Run settings with [data] sites = ... first."
        )
    return Preparation.from_dict(saved)


def _problem(result: Result, where: str) -> Problem:
    tables = result.about.get("settings")
    if tables is None:
        raise DataError(
            f"{where} does not say which problem was solved: it has no settings. "
            f"In Python, pass problem=..."
        )
    place = Location(where, "", ("settings", "problem"), whatever_is_named)
    return building.problem(tables["problem"], place)
