"""One site's table: which columns hold numbers and which hold words, and their values."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data import columns as column_kinds
from fedloom.data import strays
from fedloom.data.dates import Dates, holds_dates, part_names, raw_name
from fedloom.data.labels import second_label
from fedloom.errors import DataError
from fedloom.hints import closest

if TYPE_CHECKING:
    import polars as pl

MOST_WORDS = 1000  # a column of words with more of them is a key or a text, not a category
NUMBER, WORD, EMPTY = "number", "word", "empty"
KEY, DATE = "key", "date"  # no features, unless the settings name them


@dataclasses.dataclass(frozen=True)
class Reading:
    """How all sites read their tables; the same at each of them."""

    label: str
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()  # columns of words, even where they look like numbers
    numeric: tuple[str, ...] = ()  # columns of numbers, even where they look like words
    regression: bool | None = None  # None: where some label is not a whole number
    features: tuple[str, ...] = ()  # the columns to learn from; none: all that are no keys or dates
    dates: Dates = dataclasses.field(default_factory=dict)  # the parts to take
    encoding: str | None = None  # of CSV files that are not UTF-8
    event: str | None = None  # the column of the events at the times that the label has
    exposure: str | None = None  # the column of the exposures behind the counts of the label

    @property
    def targets(self) -> list[str]:
        """The label, and what stands beside it in a pair."""
        second = second_label("SiteFiles", self.event, self.exposure)
        return [self.label] if second is None else [self.label, second]

    def names(self, column: str) -> bool:
        """Whether the settings name a column, which is then a feature whatever it looks like."""
        named = (*self.features, *self.categorical, *self.numeric, *part_names(self.dates))
        return column == self.label or column in named

    def wants(self, column: str) -> bool:
        """Whether a column may be learned from at all."""
        if column in self.targets or column in self.ignore:
            return False
        return not self.features or column in (*self.features, *part_names(self.dates))

    def raw(self, columns: list[str]) -> list[str]:
        """The columns of the file from which these were taken."""
        return list(dict.fromkeys(raw_name(column, self.dates) for column in columns))


@dataclasses.dataclass(frozen=True)
class SiteTable:
    """The table of one site; rows without a label have been set aside."""

    name: str  # of the site
    source: str  # the file, for messages
    train: "pl.DataFrame"  # training rows
    test: "pl.DataFrame"  # test rows, possibly none
    unlabelled: int = 0  # how many rows had no label
    test_file: str | None = None  # of the test rows, for messages; None: they were held out

    def __repr__(self) -> str:
        """How much there is, and none of it."""
        return (
            f"SiteTable({self.name!r}: {self.train.height} rows, {self.test.height} test rows, "
            f"columns {', '.join(self.train.columns)})"
        )

    @property
    def test_source(self) -> str:
        """Where the test rows stand, for messages."""
        return self.test_file or self.source

    def features(self, reading: Reading) -> list[str]:
        """The columns to learn from."""
        return [name for name in self.train.columns if reading.wants(name)]

    def all_values(self, column: str) -> "pl.Series":
        """The values in all rows of the site's file, held out or not; none of a test file."""
        own = self.train[column]
        if self.test_file is not None or column not in self.test.columns:
            return own
        return own.append(self.test[column].cast(own.dtype, strict=False))

    def report(self) -> dict[str, Any]:
        """How many rows there are."""
        return {
            "site": self.name,
            "rows": self.train.height,
            "test rows": self.test.height,
            "without label": self.unlabelled,
        }


def require(source: str, frame: "pl.DataFrame", names: list[str]) -> None:
    """Raise DataError where a column is missing."""
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"{source}: the table must have a column {name!r}; it has none of that name. "
                f"{closest(name, frame.columns)}"
            )


def kind_of(source: str, series: "pl.Series", reading: Reading) -> str:
    """Whether a column holds numbers, words, dates or nothing at all."""
    import polars as pl

    if series.name in reading.categorical:
        return WORD if known(series).null_count() < series.len() else EMPTY
    if holds_dates(series):
        if series.name in (*reading.features, *reading.numeric, reading.label):
            raise DataError(
                f"{source}: column {series.name!r} holds dates, which are no numbers and no words. "
                f'Ask for parts of them: dates = {{ {series.name} = ["year", "month"] }}.'
            )
        return DATE
    _check_type(source, series)
    if known(series).null_count() == series.len():
        return EMPTY
    if series.name in reading.numeric or series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return NUMBER
    return WORD


def _check_type(source: str, series: "pl.Series") -> None:
    import polars as pl

    plain = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
    if not series.dtype.is_numeric() and series.dtype not in plain:
        raise DataError(
            f"{source}: column {series.name!r} must hold numbers or words; got {series.dtype}. "
            f"Convert it, or leave it out."
        )


def known(series: "pl.Series") -> "pl.Series":
    """The column with null wherever there is no finite number and no word, which is not blank."""
    import polars as pl

    if series.dtype == pl.String:
        return series.str.strip_chars().replace("", None)
    if series.dtype.is_float():
        return series.set(~series.is_finite(), None)
    return series


def numbers(source: str, series: "pl.Series") -> np.ndarray:
    """The values of a column of numbers, nan where there is none."""
    import polars as pl

    _check_type(source, series)
    values = known(known(series).cast(pl.Float64, strict=False))
    lost = values.is_null() & known(series).is_not_null()
    if lost.any():
        raise strays.not_numbers(source, series)
    return values.fill_null(np.nan).to_numpy().astype(np.float64)


def words(series: "pl.Series") -> "pl.Series":
    """The values of a column of words, null where there is none.

    3 and 3.0 are the same word, and "no" and "no " are.
    """
    import polars as pl

    series = known(series)
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    text = known(series.cast(pl.String))
    if not series.dtype.is_float():
        return text
    whole = series.cast(pl.Int64, strict=False).cast(pl.String)
    return whole.zip_with((series == series.round()).fill_null(False), text)


def check_no_key(source: str, series: "pl.Series") -> None:
    """Refuse a column in which most words are of one row: words of categories leave the site."""
    if column_kinds.is_key(words(series)):
        raise DataError(
            f"{source}: in column {series.name!r} most rows have a word of their own, as with "
            f"names and keys, and they would be disclosed. Take it out of features and categorical."
        )


def words_in(source: str, series: "pl.Series", remedy: str, least: int = 1) -> list[str]:
    """The words that at least so many rows of a column hold, sorted."""
    told = column_kinds.counted(words(series).drop_nulls())
    found = told.filter(told["rows"] >= least)["value"].sort().to_list()
    if len(found) > MOST_WORDS:
        raise DataError(
            f"{source}: a column of words must have at most {MOST_WORDS} different ones; "
            f"{series.name!r} has {len(found)}. {remedy}"
        )
    return found


def places(series: "pl.Series", listed: list[str]) -> np.ndarray:
    """The place of each word in a list; -1 where there is no word, or one that is not listed."""
    import polars as pl

    numbered = words(series).replace_strict(
        listed, range(len(listed)), default=-1, return_dtype=pl.Int64
    )
    return numbered.fill_null(-1).to_numpy()
