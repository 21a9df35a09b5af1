"""CSV files as Polars frames, with messages that name the line.

Polars reads a plain file directly from the disk. Text that is compressed or not UTF-8, and whatever
Polars cannot read, is loaded into memory and checked line by line.
"""

import contextlib
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from fedloom.data import strays
from fedloom.data.dialects import Dialect
from fedloom.data.headers import check_header, without_unnamed
from fedloom.data.packed import packing_of, read_bytes
from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl

MISSING = (  # as for pandas, but for None, which is a word too
    *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "null"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
_HEAD = 2**16  # bytes in which the first line is looked for
_FOR_TYPES = 1000  # rows by which columns are taken for numbers or words, where all others fit
_PADDED = r"^\s*[+-]?0\d"  # a number that would lose its first digits
_BLOCK = 2**17  # bytes that are looked through at a time


def read_csv(
    path: Path,
    dialect: Dialect,
    names: Sequence[str] | None = None,
    comment: str | None = None,
    codes: Sequence[str] = (),
) -> "pl.DataFrame":
    """A table from CSV, plain or compressed; blank lines are ignored.

    Args:
        path: The file. Fields that are one of MISSING, blanks around it aside, are missing.
        dialect: How it is written, as far as that is known.
        names: The names of the columns, where there is no header.
        comment: How lines that are to be skipped begin.
        codes: Columns that are no quantities: where one has 007, all of it stays as it is written.
    """
    import polars as pl

    trouble = (Exception, pl.exceptions.PanicException)  # a panic is no ordinary exception
    head = _head(path)
    unnamed: list[int] = []
    if head is not None:
        separator = dialect.separator_of(head, comment)
        if names is None:
            unnamed = check_header(path, head, separator, comment)
        with contextlib.suppress(*trouble):
            frame = _table(path, path, separator, names, comment, codes)
            frame = without_unnamed(path, frame, unnamed)
            return dialect.with_points(frame, separator)
    text = dialect.text(path, read_bytes(path))
    separator = dialect.separator_of(text, comment)
    if names is None:
        unnamed = check_header(path, text, separator, comment)
    try:
        frame = _table(path, io.BytesIO(text.encode()), separator, names, comment, codes)
        frame = without_unnamed(path, frame, unnamed)
    except trouble as error:
        if isinstance(error, DataError):
            raise
        _check_widths(path, io.StringIO(text), separator, names, comment)
        raise unreadable(path, str(error)) from error
    return dialect.with_points(frame, separator)


def unreadable(path: Path, reason: str) -> DataError:
    """The error of a table of which nothing else can be said."""
    first = next(iter(reason.splitlines()), "no reason given")
    return DataError(f"{path}: the table cannot be read ({first}). Check the file.")


def _head(path: Path) -> str | None:
    """The first lines of a plain file in UTF-8; None where it is not one."""
    if packing_of(path.name) or not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if len(head) == _HEAD:
        head = head[: head.rfind(b"\n") + 1]
    try:
        return head.decode("utf-8-sig") or None
    except UnicodeDecodeError:
        return None


def _table(
    path: Path,
    source: Path | io.BytesIO,
    separator: str,
    names: Sequence[str] | None,
    comment: str | None,
    codes: Sequence[str],
) -> "pl.DataFrame":
    """A table from text in UTF-8."""
    import polars as pl

    def read(rows: int | None, missing: Sequence[str], texts: Sequence[str] = ()) -> "pl.DataFrame":
        if isinstance(source, io.BytesIO):
            source.seek(0)
        return pl.read_csv(
            source,
            has_header=names is None,
            separator=separator,
            comment_prefix=comment,
            null_values=list(missing) or None,
            infer_schema_length=rows,
            schema_overrides=dict.fromkeys(texts, pl.String),
            glob=False,
        )

    # Words for what is missing, and types by all values, cost Polars half of its speed, so that it
    # does without them where that gives the same table (but for what `_has_odd_numbers` leaves).
    frame = None
    for rows, missing in ((_FOR_TYPES, ()), (_FOR_TYPES, MISSING)):
        with contextlib.suppress(pl.exceptions.ComputeError):  # a later value is of another type
            frame = read(rows, missing)
            if not any(_is_doubtful(series, missing) for series in frame):
                break
            frame = None
    if frame is None or (len(frame) > _FOR_TYPES and _has_odd_numbers(source, separator)):
        frame = read(None, MISSING)
    if whole := [s.name for s in frame if s.name in codes and s.dtype.is_integer()]:
        written = read(None, MISSING, whole).select(whole)
        frame = frame.with_columns([s for s in written if s.str.contains(_PADDED).any()])
    uneven = names is not None and frame.width != len(names)
    if uneven or frame[:, -1].null_count():
        # Polars fills the fields that a short line lacks, and the line, where it is blank.
        with _lines(source) as lines:
            blank = _check_widths(path, lines, separator, names, comment)
        frame = frame.filter(~pl.Series(blank, dtype=pl.Boolean))
    if uneven:
        raise unreadable(path, f"{frame.width} columns")
    texts = [s for s in frame if s.dtype == pl.String]
    frame = frame.with_columns(map(_without_padded, texts))
    texts = [s for s in frame if s.dtype == pl.String and s.name not in codes]
    frame = frame.with_columns(map(_numbers_beside_none, texts))
    return frame if names is None else frame.rename(dict(zip(frame.columns, names, strict=True)))


def _without_padded(series: "pl.Series") -> "pl.Series":
    """The column with gaps for words of MISSING that have blanks around them."""
    padded = series.str.starts_with(" ") | series.str.ends_with(" ")
    if not padded.any():
        return series
    return series.set(padded & series.str.strip_chars().is_in(MISSING), None)


def _numbers_beside_none(series: "pl.Series") -> "pl.Series":
    """The column with gaps for None, if all else in it are numbers; among words it is a word."""
    import polars as pl

    none = series == "None"
    if not none.any():
        return series
    others = series.set(none, None)
    gaps = others.null_count()
    if gaps == len(series) or strays.no_numbers(others).any():
        return series
    for dtype in (pl.Int64, pl.Float64):
        numbers = others.cast(dtype, strict=False)
        if numbers.null_count() == gaps:
            return numbers
    return others  # which have decimal commas


def _is_doubtful(series: "pl.Series", missing: Sequence[str]) -> bool:
    """Whether all values, or words for missing ones, could change the type of a column."""
    import polars as pl

    first = series.head(_FOR_TYPES)
    if len(first) < len(series) and first.null_count() == len(first):
        return True  # nothing to tell its type by
    if series.dtype.is_float() and not series.is_finite().all():
        return True  # "Inf" and "-nan" are words where types are found
    if missing:
        return False
    return series.dtype == pl.String and bool(series.is_in(MISSING).any())


def _has_odd_numbers(source: Path | io.BytesIO, separator: str) -> bool:
    """Whether some field begins with a blank, a tab or a plus.

    Polars takes " 4" and "+4" for numbers in a column that is known to have numbers, and for words
    where it looks for the type of a column. Left as they are, for a search would cost more than
    they are worth: a point before an exponent, "5.e3", and a carriage return within a line.
    """
    room = bytearray(_BLOCK + 1)  # before each block stands the last byte of the one before it
    letters, view = np.frombuffer(room, np.uint8), memoryview(room)
    starts = [ord(start) for start in (separator, "\n", '"')]
    marks = [ord(mark) for mark in " \t+" if mark != separator]
    with source.open("rb", buffering=0) if isinstance(source, Path) else _again(source) as file:
        while count := file.readinto(view[1:]):
            for mark in marks:
                if mark in room:  # which is a quick look, and mostly the only one
                    before = letters[:count][letters[1 : count + 1] == mark]
                    if any((before == start).any() for start in starts):
                        return True
            room[0] = room[count]
    return False


def _again(source: io.BytesIO) -> io.BytesIO:
    """The same text from its beginning again, without a copy."""
    return io.BytesIO(source.getvalue())


def _lines(source: Path | io.BytesIO) -> TextIO:
    if isinstance(source, Path):
        return source.open(encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(_again(source), encoding="utf-8", newline="")


def _check_widths(
    path: Path,
    lines: Iterable[str],
    separator: str,
    names: Sequence[str] | None,
    comment: str | None,
) -> list[bool]:
    """Which rows are blank lines; raises the error that names the first line of another width."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    width = None if names is None else len(names)
    blank: list[bool] = []
    try:
        for fields in reader:
            if fields and comment is not None and fields[0].startswith(comment):
                continue
            if width is None:
                width = len(fields) or None  # of the header; there may be blank lines before it
                continue
            blank.append(not fields)
            if not fields:
                continue
            if len(fields) != width:
                raise DataError(
                    f"{path}, line {reader.line_num}: every line must have {width} fields; got "
                    f"{len(fields)}. Mend the line, or quote fields that hold "
                    f"{separator!r}."
                )
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: quotes must be closed ({error}). Mend the line."
        ) from None
    return blank
