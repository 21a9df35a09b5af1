"""Tables and JSON on standard output."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from fedloom.pictures.labels import bytes_text as bytes_text

_WIDE = 160


def show_json(value: Any) -> None:
    """One JSON document; numbers that JSON does not know become null."""
    print(json.dumps(_plain(value), indent=2, default=str))


def show_table(
    rows: Iterable[Mapping[str, Any]], *, title: str | None = None, columns: Sequence[str] = ()
) -> None:
    """A table with a row for each mapping."""
    rows = list(rows)
    table = Table(title=title, title_justify="left", header_style="bold")
    names = columns or tuple(rows[0]) if rows else columns
    for name in names:
        numeric = any(isinstance(row.get(name), int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    # A pipe or a file has no width of its own; a table there should not be folded. Without markup:
    # what stands in brackets is a value, as in 'fedloom[plot]', and no colour.
    Console(width=None if sys.stdout.isatty() else _WIDE, markup=False).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
