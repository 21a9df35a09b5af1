"""Plain values as the text of a settings file."""

import json
from collections.abc import Mapping
from typing import Any


def value(plain: Any) -> str:
    """A value behind an equals sign; a table is written in braces."""
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, str):
        return json.dumps(plain, ensure_ascii=False)
    if isinstance(plain, Mapping):
        inner = ", ".join(lines(plain))
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(plain, list | tuple):
        return f"[{', '.join(map(value, plain))}]"
    return repr(plain)


def lines(table: Mapping[str, Any]) -> list[str]:
    """A line for each key; TOML has no null, so that a key without a value is left out."""
    return [f"{key} = {value(entry)}" for key, entry in table.items() if entry is not None]


def document(tables: Mapping[str, Any]) -> str:
    """A whole file: a table with a header for each key, several for a list of tables."""
    parts = []
    for name, held in tables.items():
        several = isinstance(held, list)
        for table in held if several else [held]:
            header = f"[[{name}]]" if several else f"[{name}]"
            parts.append("\n".join([header, *lines(table)]))
    return "\n\n".join(parts) + "\n"
