"""Values that are no numbers in a column of numbers.

A single `12O` makes texts of all numbers of a column, which would then pass for words, or for keys
and be left out. Such a column is refused, with the row, unless the settings say what it holds. Told
from words are columns with many different numbers, and few rows or few words that are none.
"""

from typing import TYPE_CHECKING

from fedloom.data.columns import counted
from fedloom.data.dialects import WITH_COMMA
from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_LEAST_NUMBERS = 10  # different ones; grades from 1 to 6 with a "5+" among them are words
_MOST_WORDS = 3  # different ones, however often they occur, such as "unknown" or "-"
_ROWS_A_STRAY = 10  # or one row in so many


def refuse(source: object, series: "pl.Series", remedy: str) -> None:
    """Raise DataError where a column of texts holds numbers, but for a few rows.

    Args:
        source: Where the column is, for the message.
        series: The column.
        remedy: What to do if all of it are words.
    """
    import polars as pl

    if series.dtype != pl.String:
        return
    told = counted(series.str.strip_chars().drop_nulls())
    told = told.filter(told["value"] != "")
    strange = no_numbers(told["value"])
    others, there = told.filter(strange), told.filter(~strange)
    count, numbers = others["rows"].sum(), there["rows"].sum()
    few = _ROWS_A_STRAY * count <= numbers or len(others) <= _MOST_WORDS
    if few and 0 < count < numbers and len(there) >= _LEAST_NUMBERS:
        raise DataError(
            f"{source}: column {series.name!r} holds numbers in {numbers} rows and something "
            f"else in {count}, first {_first(series, no_numbers(series))}. Correct it; leave the "
            f"field empty where the value is not known. {remedy}"
        )


def not_numbers(source: object, series: "pl.Series") -> DataError:
    """The error of a column of numbers with texts that are none: the first of them, and how many.

    Beside such a text decimal commas still stand as they were written, and are not what is wrong.
    """
    strange = no_numbers(series)
    if not strange.any():
        strange = series.is_not_null()
    count = int(strange.sum())
    more = f", the first of {count} such rows" if count > 1 else ""
    return DataError(
        f"{source}: column {series.name!r} must hold numbers; got {_first(series, strange)}{more}. "
        f"Correct it; leave the field empty where the value is not known."
    )


def no_numbers(series: "pl.Series") -> "pl.Series":
    """Which rows have a text that is no number, with a decimal point or comma."""
    import polars as pl

    texts = series.cast(pl.String).str.strip_chars().replace("", None)
    lost = texts.is_not_null() & texts.cast(pl.Float64, strict=False).is_null()
    return lost & ~texts.str.contains(WITH_COMMA).fill_null(False)


def _first(series: "pl.Series", strange: "pl.Series") -> str:
    row = int(strange.to_numpy().argmax())
    return f"{series[row]!r} in row {row + 1}"
