"""Which columns of a table are no features by themselves: keys and dates.

A key (a name, a number of a patient, a text) has a value of its own in most rows. A model cannot
learn from it, and what is told of its values is told of persons. A date is one value a day, of
which the parts may say something (`dates.py`). Neither is a feature unless the settings name it,
whatever the type of the column, so that CSV and Parquet behave alike.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

KEY_REASON = "most rows have a value of their own, as with names and keys"
DATE_REASON = "it holds dates, of which `dates` can take parts"
_LEAST_TO_TELL = 20  # rows with a value, below which nothing can be said
_LEAST_FOR_NUMBERS = 200  # measurements in whole numbers, too, seldom repeat in fewer rows
_DATE = r"^\s*(\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{4}( .*)?)\s*$"


def holds_dates(series: "pl.Series") -> bool:
    """Whether a column is of dates, or of texts most of which are dates."""
    import polars as pl

    if series.dtype == pl.Date or series.dtype == pl.Datetime:
        return True
    if series.dtype != pl.String:
        return False
    values = series.drop_nulls()
    return 2 * int(values.str.contains(_DATE).sum()) > len(values)


def judges(series: "pl.Series") -> bool:
    """Whether a column has values enough to say whether it is a key."""
    return series.len() - series.null_count() >= _LEAST_TO_TELL


def is_key(series: "pl.Series") -> bool:
    """Whether most rows have a value of their own; numbers with fractions are measurements.

    Of whole numbers in a small table all must differ: the ages of twenty people mostly do.
    """
    import polars as pl

    values = series.drop_nulls()
    if series.dtype == pl.Boolean or not judges(series):
        return False
    if series.dtype.is_numeric():
        if series.dtype.is_float() and not bool((values == values.round()).all()):
            return False
        if len(values) < _LEAST_FOR_NUMBERS:
            return values.n_unique() == len(values)
    return 2 * int(values.is_unique().sum()) > len(values)


def why_left_out(series: "pl.Series") -> str | None:
    """Why a column that nobody has named is no feature; None where it is one."""
    if holds_dates(series):
        return DATE_REASON
    return KEY_REASON if is_key(series) else None
