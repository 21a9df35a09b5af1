"""The rows of a site's file that have a label, if no column of numbers holds something else too.

Values are looked at before rows without a label are set aside: messages count rows as in the file.
"""

from typing import TYPE_CHECKING

from fedloom.data import strays
from fedloom.data.columns import is_key
from fedloom.data.dates import with_parts
from fedloom.data.labels import IF_CLASSES, no_regression
from fedloom.preparation import tables
from fedloom.preparation.tables import Reading

if TYPE_CHECKING:
    import polars as pl

_IF_WORDS = "If its values are words, name it in categorical, or in ignore."


def labelled(source: str, frame: "pl.DataFrame", reading: Reading) -> "pl.DataFrame":
    """The rows that have a label, with the parts of dates that are wanted."""
    # Dates too: a column that is called as a part of one would else pass for it.
    tables.require(source, frame, [*reading.targets, *reading.features, *reading.dates])
    frame = with_parts(source, frame, reading.dates)
    for name in frame.columns:
        if name in reading.numeric:
            tables.numbers(source, frame[name])
        elif reading.wants(name) and name not in reading.categorical:
            strays.refuse(source, frame[name], _IF_WORDS)
    _check_label(source, frame[reading.label], reading)
    for name in reading.targets:
        frame = frame.filter(tables.known(frame[name]).is_not_null())
    return frame


def check_test_rows(
    source: str, frame: "pl.DataFrame", train: "pl.DataFrame", reading: Reading
) -> None:
    """Refuse words in test rows where the training rows have numbers."""
    for series in train:
        name, named = series.name, reading.names(series.name)
        if name not in frame.columns or not reading.wants(name) or name in reading.categorical:
            continue
        if series.dtype.is_numeric() and (named or not is_key(series)):
            tables.numbers(source, frame[name])


def _check_label(source: str, series: "pl.Series", reading: Reading) -> None:
    import polars as pl

    if reading.regression is not False:
        strays.refuse(source, series, IF_CLASSES)
    if reading.regression and series.dtype == pl.String and strays.no_numbers(series).any():
        raise no_regression(source, series)
