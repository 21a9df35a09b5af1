"""Dates as features: the parts of a date that the settings ask for, each as a column.

`dates = { admitted = ["year", "month"] }` puts the columns `admitted year` and `admitted month` in
the place of `admitted`. A year, a day of the month and a number of days are numbers; months and
days of the week are words, as December is as near to January as to November.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.parameters import Rule

if TYPE_CHECKING:
    import polars as pl

PARTS = ("year", "month", "day", "weekday", "days")  # days: since 1970, to see how time goes on
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y")  # 3/4/2026 is another day on the other side of the Atlantic
_DATE = r"^\s*(\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{4}( .*)?)\s*$"

Dates = Mapping[str, Sequence[str]]  # for each column the parts that are wanted

dates_rule = Rule(
    lambda v: (
        isinstance(v, Mapping)
        and all(
            isinstance(parts, list | tuple)
            and parts
            and all(part in PARTS for part in parts)
            and len(set(parts)) == len(parts)
            for parts in v.values()
        )
    ),
    f"a table that gives columns of dates some of the parts {', '.join(PARTS)}, each once",
    {"admitted": ["year", "month", "weekday"]},
    {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"enum": list(PARTS)}, "minItems": 1},
    },
)


def holds_dates(series: "pl.Series") -> bool:
    """Whether a column is of dates, or of texts most of which are dates."""
    import polars as pl

    if series.dtype == pl.Date or series.dtype == pl.Datetime:
        return True
    if series.dtype != pl.String:
        return False
    values = series.drop_nulls()
    return 2 * int(values.str.contains(_DATE).sum()) > len(values)


def part_names(dates: Dates) -> list[str]:
    """The columns that stand in the place of dates."""
    return [f"{name} {part}" for name, parts in dates.items() for part in parts]


def raw_name(column: str, dates: Dates) -> str:
    """The column of the table that a column was taken from."""
    return next((name for name in dates if column in part_names({name: dates[name]})), column)


def with_parts(source: str, frame: "pl.DataFrame", dates: Dates) -> "pl.DataFrame":
    """The table with the wanted parts in the place of its dates."""
    for name, parts in dates.items():
        wanted = part_names({name: parts})
        if name not in frame.columns and set(wanted) <= set(frame.columns):
            continue  # the parts have been taken before
        if name not in frame.columns:
            raise DataError(
                f"{source}: dates lists {name!r}, which is no column of the table. "
                f"{closest(name, frame.columns)}"
            )
        if called := set(wanted) & set(frame.columns):
            raise DataError(
                f"{source}: has a column {min(called)!r}, as a part of the dates {name!r} would be "
                f"called. Rename it, or take {name!r} out of dates."
            )
        days = _as_dates(source, frame[name])
        taken = [_part(days, part).alias(n) for part, n in zip(parts, wanted, strict=True)]
        place = frame.columns.index(name)
        columns = frame.get_columns()
        frame = type(frame)([*columns[:place], *taken, *columns[place + 1 :]])
    return frame


def _part(days: "pl.Series", part: str) -> "pl.Series":
    import polars as pl

    if part == "days":
        return days.to_physical().cast(pl.Float64)
    if part == "weekday":
        return days.dt.weekday().replace_strict(range(1, 8), _WEEKDAYS, return_dtype=pl.String)
    numbers = getattr(days.dt, part)()
    return numbers.cast(pl.String) if part == "month" else numbers.cast(pl.Int64)


def _as_dates(source: str, series: "pl.Series") -> "pl.Series":
    """The days of a column of dates or of texts; null where there is none."""
    import polars as pl

    if series.dtype == pl.Date or series.dtype == pl.Datetime:
        return series.cast(pl.Date)
    if series.null_count() == len(series):
        return series.cast(pl.Date)
    if series.dtype != pl.String:
        raise DataError(
            f"{source}: column {series.name!r} must hold dates such as 2026-01-31; got "
            f"{series.dtype}. Take it out of dates, or correct it."
        )
    texts = series.str.strip_chars().str.replace(r"[T ].*$", "")
    found = texts.str.to_date(_FORMATS[0], strict=False)
    for form in _FORMATS[1:]:
        found = found.zip_with(found.is_not_null(), texts.str.to_date(form, strict=False))
    lost = found.is_null() & series.is_not_null()
    if lost.any():
        row = int(lost.to_numpy().argmax())
        raise DataError(
            f"{source}: column {series.name!r} must hold dates such as 2026-01-31 or 31.1.2026; "
            f"got {series[row]!r} in row {row + 1}. Correct it; leave the field empty where the "
            f"date is not known."
        )
    return found
