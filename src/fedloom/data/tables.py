"""Tables as datasets: numbers as they are, words one-hot, every raw column kept to divide by."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.data.frames import read_frame
from fedloom.data.packed import bare_name
from fedloom.errors import DataError
from fedloom.hints import closest

if TYPE_CHECKING:
    import polars as pl

_MOST_CATEGORIES = 1000  # a column of words with more of them is a key or a text, not a category
_WIDE = ("Int128", "UInt128")  # whole numbers that NumPy does not have


def read_table(
    path: Path,
    *,
    label: str,
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    regression: bool | None = None,
    test: Path | None = None,
    others: bool = False,
) -> Dataset:
    """A Dataset from a CSV file (plain or compressed) or a Parquet file.

    Number columns are features as they are. A column of words becomes one feature `column=word`
    for each of its categories. Every column but the label is kept raw in `Dataset.columns`.

    Args:
        path: The training rows.
        label: The column to predict.
        features: The columns to predict from; by default all but the label and `client`.
        categories: The categories of columns of words, in order, so that owners who encode their
            own files agree; by default the words that occur in the training rows, sorted.
        regression: Whether the labels are numbers to predict; by default they are when some label
            is not a whole number.
        test: The test rows, encoded as the training rows are.
        others: Whether a word that `categories` does not list counts as none of them; by default it
            is an error.
    """
    frame = read_frame(path)
    _require(path, frame, [label, *(features or ())])
    names = features or [name for name in frame.columns if name not in (label, "client")]
    _check_complete(path, frame, [label, *names])
    encoder = _learn(path, frame, names, categories or {}, others)
    y, classes = labels.encode(_raw(frame[label]), source=path, regression=regression)
    dataset = Dataset(
        bare_name(path).rpartition(".")[0],
        encoder.encode(path, frame),
        y,
        classes,
        _raw_columns(frame, label),
        encoder.features,
    )
    if test is None:
        return dataset
    frame = read_frame(test)
    _require(test, frame, [label, *names])
    _check_complete(test, frame, [label, *names])
    y, _ = labels.encode(_raw(frame[label]), source=test, known=classes, regression=classes is None)
    held_out = dataclasses.replace(
        dataset,
        name=f"{dataset.name} test",
        x=encoder.encode(test, frame),
        y=y,
        columns=_raw_columns(frame, label),
    )
    return dataclasses.replace(dataset, test=held_out)


@dataclasses.dataclass(frozen=True)
class _Encoder:
    """How columns become features: the categories of each, None for a column of numbers."""

    columns: dict[str, np.ndarray | None]
    others: bool

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(
            feature
            for name, words in self.columns.items()
            for feature in ([name] if words is None else [f"{name}={word}" for word in words])
        )

    def encode(self, path: Path, frame: "pl.DataFrame") -> np.ndarray:
        blocks = [self._block(path, frame[name], words) for name, words in self.columns.items()]
        return np.concatenate(blocks, axis=1)

    def _block(self, path: Path, series: "pl.Series", words: np.ndarray | None) -> np.ndarray:
        if words is None:
            if not _is_number(series):
                raise DataError(
                    f"{path}: column {series.name!r} must hold numbers, as in the training rows; "
                    f"got {series.dtype}. Correct the column."
                )
            return _raw(series).astype(np.float64)[:, None]
        values = _raw(series).astype(str)
        strange = ~np.isin(values, words)
        if strange.any() and not self.others:
            raise DataError(
                f"{path}: column {series.name!r} must hold one of its {len(words)} categories; got "
                f"{values[strange][0]!r} in row {int(np.argmax(strange)) + 1}. "
                f"State all of them with categories=."
            )
        return (values[:, None] == words).astype(np.float64)


def _learn(
    path: Path,
    frame: "pl.DataFrame",
    names: Sequence[str],
    stated: Mapping[str, Sequence[str]],
    others: bool,
) -> _Encoder:
    columns: dict[str, np.ndarray | None] = {}
    for name in names:
        if name in stated:
            columns[name] = np.asarray(stated[name], dtype=str)
        elif _is_number(frame[name]):
            columns[name] = None
        else:
            words = np.unique(_raw(frame[name]))
            if len(words) > _MOST_CATEGORIES:
                raise DataError(
                    f"{path}: a column of words must have at most {_MOST_CATEGORIES} categories; "
                    f"{name!r} has {len(words)}. Leave it out with features=."
                )
            columns[name] = words
    return _Encoder(columns, others)


def _require(path: Path, frame: "pl.DataFrame", names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"{path}: the table must have a column {name!r}; it has {frame.width} others. "
                f"{closest(name, frame.columns)}"
            )
    if frame.height == 0:
        raise DataError(f"{path}: the table must have at least one row; got none. Check the file.")


def _check_complete(path: Path, frame: "pl.DataFrame", names: Sequence[str]) -> None:
    for series in frame.select(names):
        missing = series.null_count()
        if series.dtype.is_float():
            missing = series.len() - int(series.is_finite().sum())
        if missing:
            raise DataError(
                f"{path}: column {series.name!r} must have a finite value in every row; "
                f"{missing} of {frame.height} rows have none. Fill them in, drop the rows, or "
                f"leave the column out with features=."
            )


def _is_number(series: "pl.Series") -> bool:
    import polars as pl

    return series.dtype.is_numeric() or series.dtype == pl.Boolean


def _raw(series: "pl.Series") -> np.ndarray:
    """The values as numbers or words; a word that is missing reads `missing`."""
    import polars as pl

    if str(series.dtype) in _WIDE:
        return series.cast(pl.Float64).to_numpy()
    if _is_number(series):
        return series.to_numpy()
    return np.asarray(series.cast(pl.String).fill_null("missing").to_list(), dtype=str)


def _raw_columns(frame: "pl.DataFrame", label: str) -> dict[str, np.ndarray]:
    return {series.name: _raw(series) for series in frame.drop(label)}
