"""Tables and JSON on standard output."""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table

from fedloom.hints import printable
from fedloom.pictures.labels import bytes_text as bytes_text

Rows = Sequence[Mapping[str, Any]]
_WIDE = 160
_LONG = 24  # letters of a value; longer ones, such as paths, may be broken
_BORDERS = 3  # a line and two spaces, for each column


def add_format(parser: argparse.ArgumentParser, choices: Sequence[str] = ("table", "json")) -> None:
    """Declare --format: the first choice is for people, and those after JSON are for papers."""
    papers = ", others for papers" if len(choices) > 2 else ""
    parser.add_argument(
        "--format",
        choices=choices,
        default=choices[0],
        help=f"{choices[0]} for people, json for programs{papers}",
    )


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
        for name, width in zip(part, _widths(rows, part, console.width), strict=True):
            numeric = any(isinstance(row.get(name), int | float) for row in rows)
            side: JustifyMethod = "right" if numeric else "left"
            table.add_column(name, justify=side, overflow="fold", width=width)
        for row in rows:
            table.add_row(*(_cell(row.get(name)) for name in part))
        console.print(table)


def _parts(rows: Rows, names: Sequence[str], width: int) -> list[Sequence[str]]:
    """The columns that fit beside each other without a break inside a word.

    The first column, which says what a row is about, begins every part.
    """
    needed = {name: _least(rows, name, width) + _BORDERS for name in names}
    if 1 + sum(needed.values()) <= width:
        return [names]
    first, *others = names
    parts, taken = [[first]], 1 + needed[first]
    for name in others:
        if len(parts[-1]) > 1 and taken + needed[name] > width:
            parts.append([first])
            taken = 1 + needed[first]
        parts[-1].append(name)
        taken += needed[name]
    return list(parts)


def _widths(rows: Rows, names: Sequence[str], width: int) -> list[int | None]:
    """What each column gets: what it needs, and of what is left as much as the others."""
    least = [_least(rows, name, width) for name in names]
    most = [max(cell_len(text) for text in (name, *_texts(rows, name))) for name in names]
    room = width - 1 - _BORDERS * len(names)
    if sum(least) > room:
        return [None] * len(names)
    for level in range(room, 0, -1):
        widths = [max(low, min(high, level)) for low, high in zip(least, most, strict=True)]
        if sum(widths) <= room:
            break
    return list(widths)


def _least(rows: Rows, name: str, width: int) -> int:
    """What is broken between words only: texts and headings, but no number with what follows it.

    Nor what stands in the first column, up to half the table: one copies it.
    """
    first = bool(rows) and name == next(iter(rows[0]))
    most = width // 2 if first else _LONG

    def needed(text: str) -> int:
        whole = cell_len(text) <= most and (first or text[:1].isdigit())
        return min(max(map(cell_len, (text,) if whole else text.split()), default=0), most)

    return max([*map(needed, _texts(rows, name)), *map(cell_len, name.split())])


def _texts(rows: Rows, name: str) -> list[str]:
    return [_cell(row.get(name)) for row in rows]


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
