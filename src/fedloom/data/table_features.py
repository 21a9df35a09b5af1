"""How the columns of a single table become features: numbers as they are, words one-hot.

If gaps are filled, a column with gaps in the training rows gets one more feature, which is 1 in
rows without a value. A missing number then counts as the mean of the training rows, a missing word
as none of the words.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data import strays
from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_MOST_CATEGORIES = 1000  # a column of words with more of them is a key or a text, not a category
_WIDE = ("Int128", "UInt128")  # whole numbers that NumPy does not have


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of numbers, or of words with its categories."""

    name: str
    categories: np.ndarray | None  # None: numbers
    gaps: bool  # whether training rows lack a value, and gaps are filled
    mean: float  # of the numbers in training rows

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        words = self.categories
        own = [self.name] if words is None else [f"{self.name}={word}" for word in words]
        return [*own, f"{self.name} is missing"] if self.gaps else own


@dataclasses.dataclass(frozen=True)
class Encoder:
    """How columns become features, as the training rows say."""

    columns: list[Column]
    others: bool  # whether a word that is no category counts as none of them

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features."""
        return tuple(feature for column in self.columns for feature in column.features)

    def check_numbers(self, source: object, frame: "pl.DataFrame") -> None:
        """Raise DataError where a column of numbers holds something else, by its row in a file."""
        import polars as pl

        for series in (frame[column.name] for column in self.columns if column.categories is None):
            if series.dtype == pl.String and strays.no_numbers(series).any():
                raise strays.not_numbers(source, series)
            if not is_number(series) and not gaps_of(series).all():
                raise DataError(
                    f"{source}: column {series.name!r} must hold numbers, as in the training rows; "
                    f"got {series.dtype}. Correct the column."
                )

    def encode(self, source: object, frame: "pl.DataFrame") -> np.ndarray:
        """The features of each row."""
        blocks = [self._block(source, frame[column.name], column) for column in self.columns]
        return np.concatenate(blocks, axis=1)

    def _block(self, source: object, series: "pl.Series", column: Column) -> np.ndarray:
        import polars as pl

        absent = gaps_of(series)
        if column.categories is None:
            block = np.full((len(series), 1), column.mean)
            block[~absent, 0] = raw(series)[~absent]
        else:
            if series.dtype.is_integer():
                series = series.cast(pl.String)  # with a gap NumPy would make 3.0 of 3
            values = raw(series).astype(str)
            strange = ~np.isin(values, column.categories) & ~absent
            if strange.any() and not self.others:
                raise DataError(
                    f"{source}: column {series.name!r} must hold one of its "
                    f"{len(column.categories)} categories; got {values[strange][0]!r} in row "
                    f"{int(np.argmax(strange)) + 1}. State all of them with categories=."
                )
            block = (values[:, None] == column.categories) & ~absent[:, None]
        return np.column_stack([block, absent] if column.gaps else [block]).astype(np.float64)


def learn(
    source: object,
    frame: "pl.DataFrame",
    names: Sequence[str],
    stated: Mapping[str, Sequence[str]],
    others: bool,
) -> Encoder:
    """How the columns of the training rows become features."""
    columns = []
    for name in names:
        absent = gaps_of(frame[name])
        gaps, mean, words = bool(absent.any()), 0.0, None
        if name in stated:
            words = np.asarray(stated[name], dtype=str)
        elif is_number(frame[name]):
            there = raw(frame[name])[~absent].astype(np.float64)
            mean = float(there.mean()) if len(there) else 0.0
        else:
            words = np.unique(raw(frame[name])[~absent])
            if len(words) > _MOST_CATEGORIES:
                raise DataError(
                    f"{source}: a column of words must have at most {_MOST_CATEGORIES} categories; "
                    f"{name!r} has {len(words)}. Leave it out with features=."
                )
        columns.append(Column(name, words, gaps, mean))
    return Encoder(columns, others)


def gaps_of(series: "pl.Series") -> np.ndarray:
    """Which rows have no finite number and no word."""
    there = series.is_finite().fill_null(False) if series.dtype.is_float() else series.is_not_null()
    return ~there.to_numpy()


def is_number(series: "pl.Series") -> bool:
    """Whether a column holds numbers, or true and false."""
    import polars as pl

    return series.dtype.is_numeric() or series.dtype == pl.Boolean


def raw(series: "pl.Series") -> np.ndarray:
    """The values as numbers or words; a word that is missing reads `missing`."""
    import polars as pl

    if str(series.dtype) in _WIDE:
        return series.cast(pl.Float64).to_numpy()
    if is_number(series):
        return series.to_numpy()
    return np.asarray(series.cast(pl.String).fill_null("missing").to_list(), dtype=str)
