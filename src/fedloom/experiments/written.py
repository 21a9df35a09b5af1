"""Settings as a text that runs wherever it lies: changes applied, files named absolutely."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.experiments.settings import Settings

_FILES = ("path", "sites", "parties", "test")  # of [data]: relative ones begin where one works
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def runnable(setup: Settings) -> str:
    """The text of the user's file where it says all, else one with the same settings."""
    tables = with_whole_paths(setup.tables)
    text = setup.place.text
    return text if tables == tomllib.loads(text) else document(tables)


def with_whole_paths(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables whose data are found from every folder."""
    data = dict(tables["data"])
    for key in _FILES:
        if isinstance(data.get(key), str):
            data[key] = str(Path.cwd() / Path(data[key]).expanduser())
    return {**tables, "data": data}


def document(tables: Mapping[str, Any]) -> str:
    """Tables as TOML: a heading for each, and what is inside in lines."""
    parts = []
    for name, value in tables.items():
        entries = value if isinstance(value, list) else [value]
        heading = f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
        for entry in entries:
            lines = [f"{_key(key)} = {inline(v)}" for key, v in entry.items() if v is not None]
            parts.append("\n".join([heading, *lines]) + "\n")
    return "\n".join(parts)


def inline(value: Any) -> str:
    """A value as TOML has it in a line."""
    if isinstance(value, Mapping):
        entries = (f"{_key(key)} = {inline(part)}" for key, part in value.items())
        return "{ " + ", ".join(entries) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
