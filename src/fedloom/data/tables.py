"""Datasets from single tables (files or frames), with every raw column kept to divide by."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data import labels, strays
from fedloom.data.columns import why_left_out
from fedloom.data.dataset import Dataset
from fedloom.data.dates import Dates, dates_rule, holds_dates, part_names, with_parts
from fedloom.data.dialects import Dialect
from fedloom.data.frames import read_frame
from fedloom.data.labels import paired, second_label
from fedloom.data.packed import bare_name
from fedloom.data.table_features import gaps_of, learn, raw
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.parameters import check, one_of

if TYPE_CHECKING:
    import polars as pl

_IF_WORDS = "If its values are words, list them in categories, or leave it out of features."
_missing_rule = one_of("refuse", "fill", "drop")


def read_table(
    path: Path,
    *,
    label: str,
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    dates: Dates | None = None,
    missing: str = "refuse",
    regression: bool | None = None,
    test: Path | None = None,
    others: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    event: str | None = None,
    exposure: str | None = None,
) -> Dataset:
    """A Dataset from a CSV file (plain or compressed) or a Parquet file.

    Number columns are features as they are. A column of words becomes one feature `column=word`
    for each of its categories. Columns that look like keys or dates are left out unless they are
    named, and `Dataset.left_out` says why. Every column but the label is kept raw in
    `Dataset.columns`.

    Args:
        path: The training rows.
        label: The column to predict.
        features: The columns to predict from; by default all but the label, `client`, and what
            looks like keys or dates.
        categories: The categories of columns of words, in order, so that owners who encode their
            own files agree; by default the words that occur in the training rows, sorted.
        dates: For columns of dates the parts to predict from: year, month, day, weekday, days.
        missing: What to do where a value is missing: "refuse" the table; "fill" in the mean, or
            none of the words, with one more feature that is 1 in such rows; or "drop" these rows.
        regression: Whether the labels are numbers to predict; by default they are when some label
            is not a whole number.
        test: The test rows, encoded as the training rows are.
        others: Whether a word that `categories` does not list counts as none of them; by default it
            is an error.
        separator: What stands between the fields of a CSV file; by default it is found.
        decimal: The decimal mark of a CSV file; by default it is found.
        encoding: Of a CSV file that is not UTF-8.
        event: The column that says whether there was an event at the time that `label` names, 1 or
            0; labels are then pairs.
        exposure: The column with the exposure behind the count that `label` names; labels are then
            pairs.
    """
    dialect = Dialect(separator, decimal, encoding)
    read = functools.partial(read_frame, dialect=dialect, codes=tuple(categories or ()))
    held_out = None if test is None else (test, read(test))
    return from_frame(
        read(path),
        source=path,
        name=bare_name(path).rpartition(".")[0],
        label=label,
        features=features,
        categories=categories,
        dates=dates,
        missing=missing,
        regression=regression,
        test=held_out,
        others=others,
        event=event,
        exposure=exposure,
    )


def from_frame(
    frame: "pl.DataFrame",
    *,
    label: str,
    source: object = "the table",
    name: str = "table",
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    dates: Dates | None = None,
    missing: str = "refuse",
    regression: bool | None = None,
    test: "tuple[object, pl.DataFrame] | None" = None,
    others: bool = False,
    event: str | None = None,
    exposure: str | None = None,
) -> Dataset:
    """A Dataset from a Polars frame; options are those of `read_table`.

    Args:
        frame: The training rows.
        label: The column to predict.
        source: Where the rows come from, for messages.
        name: What the dataset is called.
        features: See `read_table`.
        categories: See `read_table`.
        dates: See `read_table`.
        missing: See `read_table`.
        regression: See `read_table`.
        test: The test rows, and where they come from.
        others: See `read_table`.
        event: See `read_table`.
        exposure: See `read_table`.
    """
    check(str(source), "missing", missing, _missing_rule)
    check(str(source), "dates", dates, dates_rule.or_none("dates are left out"))
    named = list(features or ())
    if dates:
        frame = with_parts(str(source), frame, dates)
        named = [*(n for n in named if n not in dates), *part_names(dates)]
    second = second_label(str(source), event, exposure)
    targets = [label] if second is None else [label, second]
    _require(source, frame, [*targets, *named])
    left_out: dict[str, str] = {}
    stated = ("client", *targets, *(categories or ()))
    for column in named if features else frame.columns:
        if column not in stated:
            strays.refuse(source, frame[column], _IF_WORDS)
    if regression is not False:
        strays.refuse(source, frame[label], labels.IF_CLASSES)
    if not features:
        usual = [n for n in frame.columns if n not in stated]
        judged = {n: why_left_out(frame[n]) for n in usual if n not in named}
        left_out = {n: why for n, why in judged.items() if why is not None}
        named = [n for n in frame.columns if n not in (*targets, "client", *left_out)]
    if not named:
        raise DataError(
            f"{source}: a column must be left to learn from; got none ({_reasons(left_out)}). "
            f"Name those that are to be used in features."
        )
    for column in named:
        if column not in (categories or {}):
            _check_no_date(source, frame[column])
    encoder = learn(
        source,
        _complete(source, frame, [*targets, *named], missing),
        named,
        categories or {},
        others,
    )

    def rows(source: object, frame: "pl.DataFrame", known: Dataset | None) -> Dataset:
        """Some rows, with classes and features as the training rows have them."""
        if dates:
            frame = with_parts(str(source), frame, dates)
        _require(source, frame, [*targets, *named])
        encoder.check_numbers(source, frame)
        frame = _complete(source, frame, [*targets, *named], missing)
        numbers = True if second or (known and known.labels is None) else regression
        classes = None if known is None else known.labels
        y, classes = labels.encode(
            raw(frame[label]), source=source, known=classes, regression=numbers
        )
        if second is not None:
            y = paired(source, y, frame[second], is_event=event is not None)
        columns = {series.name: raw(series) for series in frame.drop(targets)}
        x = encoder.encode(source, frame)
        title = name if known is None else f"{name} test"
        return Dataset(title, x, y, classes, columns, encoder.features, left_out=left_out)

    made = rows(source, frame, None)
    return made if test is None else dataclasses.replace(made, test=rows(*test, made))


def _require(source: object, frame: "pl.DataFrame", names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"{source}: the table must have a column {name!r}; it has {frame.width} others. "
                f"{closest(name, frame.columns)}"
            )
    if frame.height == 0:
        raise DataError(
            f"{source}: the table must have at least one row; got none. Check the file."
        )


def _check_no_date(source: object, series: "pl.Series") -> None:
    if not series.dtype.is_numeric() and holds_dates(series):
        raise DataError(
            f"{source}: column {series.name!r} holds dates, which are no numbers and no words. "
            f'Ask for parts of them: dates = {{ {series.name} = ["year", "month"] }}.'
        )


def _complete(
    source: object, frame: "pl.DataFrame", names: Sequence[str], missing: str
) -> "pl.DataFrame":
    """The rows to use, after a look for gaps; a row without a label is of no use."""
    gaps = {name: gaps_of(frame[name]) for name in names}
    if missing == "refuse":
        for name, absent in gaps.items():
            if absent.any():
                raise DataError(
                    f"{source}: column {name!r} must have a finite value in every row; "
                    f"{int(absent.sum())} of {frame.height} rows have none. Set missing = 'fill' "
                    f"or 'drop', or leave the column out with features=."
                )
        return frame
    lacking: Any = gaps[names[0]] if missing == "fill" else np.any(list(gaps.values()), axis=0)
    if lacking.all():
        raise DataError(f"{source}: no row has all values that are needed. Leave columns out.")
    return frame.filter(~lacking)


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{name!r}: {why}" for name, why in left_out.items()) or "it has no other"
