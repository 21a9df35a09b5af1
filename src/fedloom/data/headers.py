"""The names of a table's columns: every one is there once, and differs by more than blanks.

Readers of tables make other names of those that are there twice, such as y_duplicated_0. A second
column of labels would then be a feature.
"""

import contextlib
import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl


def check_names(source: object, names: Iterable[str]) -> None:
    """Raise DataError where two columns of a table are called alike."""
    found: dict[str, str] = {}
    for name in names:
        other = found.get(name.strip())
        found[name.strip()] = name
        if other is None:
            continue
        if not name.strip():
            raise _unnamed(source)
        said = f"column {name!r} is there twice"
        if other != name:
            said = f"columns {other!r} and {name!r} differ only by blanks"
        raise DataError(
            f"{source}: {said}, and every column must have a name of its own. Rename or remove one."
        )


def check_header(source: object, text: str, separator: str, comment: str | None) -> list[int]:
    """Raise DataError where the first line of a CSV has a name twice, or seems to be the only one.

    Returns the places of columns without a name, where there are several: spreadsheets end lines in
    such as `a,b,,`, and only values in them are a mistake.

    Args:
        source: The file.
        text: Its beginning, or all of it.
        separator: What stands between fields.
        comment: How lines that are to be skipped begin.
    """
    if "\r" in text and "\n" not in text:
        raise DataError(
            f"{source}: lines must end in a line feed; these end in a carriage return alone, as on "
            f"old Macs. Save the file anew, as CSV in UTF-8."
        )
    lines = (line for line in io.StringIO(text, newline="") if not _is_comment(line, comment))
    reader = csv.reader(lines, delimiter=separator)
    with contextlib.suppress(csv.Error):  # which is told when all lines are read
        names = next((fields for fields in reader if fields), [])
        check_names(source, filter(str.strip, names))
        unnamed = [place for place, name in enumerate(names) if not name.strip()]
        return unnamed if len(unnamed) > 1 else []
    return []


def without_unnamed(source: object, frame: "pl.DataFrame", places: Sequence[int]) -> "pl.DataFrame":
    """The table less its columns without a name; DataError where one of them has a value."""
    unnamed = [frame.columns[place] for place in places]
    if any(frame[name].null_count() < frame.height for name in unnamed):
        raise _unnamed(source)
    return frame.drop(unnamed)


def _unnamed(source: object) -> DataError:
    return DataError(f"{source}: two columns have no name. Name or remove them.")


def _is_comment(line: str, comment: str | None) -> bool:
    return comment is not None and line.startswith(comment)
