"""One file a party: the same people with other columns, joined on an id, labels at one of them.

Every party prepares its own columns by itself, since it has all people's values of them: numbers
get mean 0 and deviation 1 over the training rows, words become one column each. A missing number
counts as the mean, a missing or new word as none.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.alignment import align
from fedloom.data.frames import read_frame
from fedloom.data.parties import Parties, from_parties
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.parameters import at_least, between, one_of, param, parametrised
from fedloom.preparation.files import a_text, named_files, names_param

if TYPE_CHECKING:
    import polars as pl


@parametrised
class PartyFiles:
    """A CSV or Parquet file for each party, joined on an id; one of them has the label."""

    parties: str = param(a_text, "a folder, or a pattern such as parties/*.parquet")
    id: str = param(a_text, "the column that says who a row is about, in every file")
    label: str = param(a_text, "the column to predict, in one file")
    join: str = param(
        one_of("private", "plain"),
        "by private set intersection, or in plain where ids may be pooled",
        default="private",
    )
    test_fraction: float | None = param(
        between(0, 1).or_none("no rows"), "the part of the people to hold out", default=None
    )
    ignore: tuple[str, ...] = names_param("columns to leave out")
    seed: int = param(at_least(0), "of the choice of held-out people", default=0)

    def load(self) -> Parties:
        """Read the files, find the people that all have, and prepare the columns."""
        found = named_files(self.parties, "parties")
        frames = {name: self._frame(path) for name, path in found.items()}
        owners = [name for name, frame in frames.items() if self.label in frame.columns]
        if len(owners) != 1:
            raise DataError(
                f"data.label: {self.label!r} must be a column of exactly one file; it is in "
                f"{', '.join(owners) or 'none'} of {', '.join(frames)}. Name another column."
            )
        order = [*owners, *(name for name in frames if name not in owners)]
        alignment = align({name: frames[name][self.id].to_list() for name in order}, how=self.join)
        joined = {name: frames[name][alignment.rows[name]] for name in order}
        train, test = self._divide(alignment.size)
        y, labels = _labels(joined[owners[0]][self.label])
        blocks = {
            name: _encoded(frame.drop(self.id, self.label, *self.ignore, strict=False), train)
            for name, frame in joined.items()
        }
        held_out = ({name: block[test] for name, block in blocks.items()}, y[test])
        made = from_parties(
            {name: block[train] for name, block in blocks.items()},
            y[train],
            test=held_out if len(test) else None,
        )
        words = made.labels if labels is None or made.labels is None else labels[made.labels]
        return dataclasses.replace(made, labels=words, alignment=alignment.report())

    def _frame(self, path: Path) -> "pl.DataFrame":
        frame = read_frame(path)
        if self.id not in frame.columns:
            raise DataError(
                f"{path}: every party's file must have the id column {self.id!r}. "
                f"{closest(self.id, frame.columns)}"
            )
        return frame

    def _divide(self, people: int) -> tuple[np.ndarray, np.ndarray]:
        held = 0 if self.test_fraction is None else round(self.test_fraction * people)
        order = np.random.default_rng(self.seed).permutation(people)
        held = min(held, people - 1)
        return np.sort(order[held:]), np.sort(order[:held])


def _labels(column: "pl.Series") -> tuple[np.ndarray, np.ndarray | None]:
    """Classes as numbers with their names, or numbers as they are."""
    if column.null_count():
        raise DataError(
            f"data.label: {column.name!r} must have a value for everyone; {column.null_count()} "
            f"are missing. Fill them in, or drop these rows."
        )
    if column.dtype.is_float():
        return column.to_numpy(), None
    names, places = np.unique(np.asarray(column.to_list()), return_inverse=True)
    return places.astype(np.int64), names


def _encoded(frame: "pl.DataFrame", train: np.ndarray) -> np.ndarray:
    """The columns as numbers, scaled by the training rows."""
    parts = [_encoded_column(frame[name], train) for name in frame.columns]
    if not parts:
        raise DataError("every party must have a feature beside id and label. Add a column.")
    return np.concatenate(parts, axis=1)


def _encoded_column(column: "pl.Series", train: np.ndarray) -> np.ndarray:
    if column.dtype.is_numeric() or str(column.dtype) == "Boolean":
        values = column.cast(float).to_numpy().astype(float)
        known: Any = values[train][~np.isnan(values[train])]
        centre, spread = (known.mean(), known.std()) if len(known) else (0.0, 1.0)
        return np.nan_to_num((values - centre) / (spread or 1.0))[:, None]
    texts = np.asarray(["" if entry is None else str(entry) for entry in column.to_list()])
    words = np.unique(texts[train])
    return (texts[:, None] == words[words != ""][None, :]).astype(float)
