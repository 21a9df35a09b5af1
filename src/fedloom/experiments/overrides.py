"""Changes of a settings file from the command line, such as `--set algorithm.lr=0.05`."""

import tomllib
from collections.abc import Iterable
from typing import Any

from fedloom.errors import SettingsError


def apply_overrides(tables: dict[str, Any], overrides: Iterable[str]) -> None:
    """Apply texts "table.key=value"; a value is TOML, or else a text."""
    for override in overrides:
        _apply(tables, override)


def _apply(tables: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    *path, key = name.strip().split(".")
    if not equals or not path or not key:
        raise SettingsError(
            f"--set must be table.key=value; got {override!r}. Try --set algorithm.lr=0.1."
        )
    table: Any = tables
    for part in path:
        table = table.setdefault(part, {})
        if isinstance(table, list) and len(table) == 1:
            table = table[0]
        if not isinstance(table, dict):
            what = f"one of {len(table)} tables" if isinstance(table, list) else "no table"
            raise SettingsError(f"--set {override}: {part} is {what}, so edit the file instead.")
    try:
        table[key] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        table[key] = text.strip()
