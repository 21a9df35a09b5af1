"""Predictions as columns of a table: classes, probabilities, scores or values."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.deploy.networks import LOG_HAZARD
from fedloom.errors import DataError
from fedloom.metrics import links
from fedloom.preparation import tables

if TYPE_CHECKING:
    import polars as pl

PROBABILITY = "probability of"  # how the names of their columns begin


def columns(scores: np.ndarray, link: str | None, classes: list[Any] | None) -> dict[str, Any]:
    """Columns of predictions: the classes with their probabilities or scores, or the values."""
    scores = np.asarray(scores, np.float64)
    scores = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
    if classes is None:
        return {"log hazard ratio" if link == LOG_HAZARD else "prediction": scores}
    chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    named = {"prediction": [classes[place] for place in chosen]}
    if links.PROBABILITIES not in links.GIVES[link]:
        values = [scores] if scores.ndim == 1 else list(scores.T)
        names = ["score"] if scores.ndim == 1 else [f"score of {label}" for label in classes]
        return named | dict(zip(names, values, strict=True))
    shares = links.probabilities(scores, str(link))
    return named | {
        f"{PROBABILITY} {label}": shares[:, place] for place, label in enumerate(classes)
    }


def kept(source: str, frame: "pl.DataFrame", keep: Sequence[str]) -> "pl.DataFrame":
    """The columns of a table that stand before the predictions."""
    tables.require(source, frame, list(keep))
    return frame.select(list(dict.fromkeys(keep)))


def check_names(source: str, keep: Collection[str], said: Collection[str]) -> None:
    """Refuse to keep a column that is called as a prediction is."""
    for name in keep:
        if name in said:
            raise DataError(
                f"{source}: the column {name!r} cannot be kept, since a column of the predictions "
                f"has that name. Rename it in the table, or leave it out of keep."
            )
