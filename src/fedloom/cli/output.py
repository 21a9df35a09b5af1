"""Tables and JSON on standard output."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from fedloom.hints import printable
from fedloom.pictures.labels import bytes_text as bytes_text

_WIDE = 160
_LONG = 24  # letters of a value; longer ones, such as paths, may be broken
_BORDERS = 3  # a line and two spaces, for each column


def show_json(value: Any) -> None:
    """One JSON document; numbers that JSON does not know become null."""
    print(json.dumps(_plain(value), indent=2, default=str))


def say(text: str) -> None:
    """A line with words of others in it."""
    print(printable(text))


def show_table(
    rows: Iterable[Mapping[str, Any]], *, title: str | None = None, columns: Sequence[str] = ()
) -> None:
    """A table with a row for each mapping; what is too wide goes on in a second table."""
    title = None if title is None else printable(title)
    rows = [{printable(name): value for name, value in row.items()} for row in rows]
    names = columns or tuple(rows[0]) if rows else columns
    # A pipe or a file has no width of its own; a table there should not be folded. Without markup:
    # what stands in brackets is a value, as in 'fedloom[export]', and no colour.
    console = Console(width=None if sys.stdout.isatty() else _WIDE, markup=False)
    for number, part in enumerate(_parts(rows, names, console.width)):
        table = Table(title=None if number else title, title_justify="left", header_style="bold")
        for name in part:
            numeric = any(isinstance(row.get(name), int | float) for row in rows)
            table.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_cell(row.get(name)) for name in part))
        console.print(table)


def _parts(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], width: int
) -> list[Sequence[str]]:
    """The columns that fit beside each other without a break inside a word.

    The first column, which says what a row is about, begins every part.
    """

    def needed(name: str) -> int:
        values = (word for row in rows for word in _cell(row.get(name)).split())
        widest = min(max(map(len, values), default=0), _LONG)
        return max([widest, *map(len, name.split())]) + _BORDERS

    if 1 + sum(map(needed, names)) <= width:
        return [names]
    first, *others = names
    parts, taken = [[first]], 1 + needed(first)
    for name in others:
        if len(parts[-1]) > 1 and taken + needed(name) > width:
            parts.append([first])
            taken = 1 + needed(first)
        parts[-1].append(name)
        taken += needed(name)
    return list(parts)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
