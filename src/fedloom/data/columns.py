"""Which columns of a table are not features unless they are named: keys, surnames and dates.

A key (a name, a patient's number, a text) has a different value in most rows. A model cannot learn
from it, and its values disclose persons. A date has one value a day, but its parts may be useful
(`dates.py`). Neither is a feature unless the settings name it, whatever the type of the column, so
that CSV and Parquet behave alike. Words that mostly occur in only a few rows, such as surnames,
disclose persons even though they repeat.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedloom.data.dates import holds_dates

if TYPE_CHECKING:
    import polars as pl

KEY_REASON = "most rows have a value of their own, as with names and keys"
RARE_REASON = "its words are of a few rows each, as with names"
DATE_REASON = "it holds dates, of which `dates` can take parts"
FEW_ROWS = 5  # a word of fewer rows than that, over all, tells of persons and is not shown
_LEAST_TO_TELL = 20  # rows with a value, below which nothing can be said
_LEAST_FOR_NUMBERS = 200  # measurements in whole numbers, too, seldom repeat in fewer rows
_PAIRS_A_REPETITION = 500  # of two rows of a measurement in whole numbers more are alike
_MANY_WORDS, _ROWS_A_WORD = 20, 10  # more words, and fewer rows for each, are no categories


def counted(series: "pl.Series") -> "pl.DataFrame":
    """Every `value` of a column, whatever it is called, and how many `rows` have it."""
    return series.alias("value").value_counts(name="rows")


def judges(series: "pl.Series") -> bool:
    """Whether a column has enough values to decide whether it is a key."""
    return series.len() - series.null_count() >= _LEAST_TO_TELL


def is_key(series: "pl.Series") -> bool:
    """Whether most rows have a value of their own; numbers with fractions are measurements.

    Of whole numbers in a small table hardly two may be alike, as when a patient comes back: most
    of the ages of twenty people differ, and yet some of the pairs among them are alike.
    """
    import polars as pl

    values = series.drop_nulls()
    if series.dtype == pl.Boolean or not judges(series):
        return False
    if series.dtype.is_numeric():
        if series.dtype.is_float() and not bool((values == values.round()).all()):
            return False
        if len(values) < _LEAST_FOR_NUMBERS:
            repeated = counted(values)["rows"].cast(pl.Int64)
            alike = int((repeated * (repeated - 1)).sum())
            return _PAIRS_A_REPETITION * alike <= len(values) * (len(values) - 1)
    return 2 * int(values.is_unique().sum()) > len(values)


def all_differ(series: "pl.Series") -> bool:
    """Whether no value occurs twice in a column of whole numbers, however short it is."""
    values = series.drop_nulls()
    whole = not series.dtype.is_float() or bool((values == values.round()).all())
    return whole and str(series.dtype) != "Boolean" and values.n_unique() == len(values)


def together_a_key(rows: Iterable[int]) -> bool:
    """Whether numbers that differ at each of some small sites are as many as can be judged."""
    return sum(n * (n - 1) for n in rows) >= _LEAST_TO_TELL * (_LEAST_TO_TELL - 1)


def tells_of_persons(counts: Sequence[int], rows: int) -> bool:
    """Whether words are more likely names than categories, by the number of rows of each.

    Args:
        counts: The number of rows that hold each word, over all sites.
        rows: The number of all rows; with fewer than twenty the answer is no.
    """
    if rows < _LEAST_TO_TELL:
        return False
    rare = sum(count < FEW_ROWS for count in counts)
    many = len(counts) > _MANY_WORDS and sum(counts) < _ROWS_A_WORD * len(counts)
    return 2 * rare > len(counts) or many or not counts


def why_left_out(series: "pl.Series") -> str | None:
    """Why a column that the settings do not name is not a feature; None if it is one."""
    if holds_dates(series):
        return DATE_REASON
    return KEY_REASON if is_key(series) else None
