"""Places in a settings file: for errors, and for which code the settings may load."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedloom.errors import SettingsError

# Told of a kind of thing ("algorithms") and of a name that is not fedloom's own; it raises where
# code must not be loaded because these settings name it.
Admission = Callable[[str, str], None]


def nothing_else(kind: str, name: str) -> None:
    """Admit nothing but fedloom's own code: for settings whose source is unknown."""
    raise SettingsError(
        f"{kind} must be fedloom's own here; got {name!r}. Put it into a settings file, and run "
        f"that with `fedloom run`."
    )


def whatever_is_named(kind: str, name: str) -> None:
    """Admit any code: for settings that are run by whoever wrote them."""


class Location(NamedTuple):
    """A table or a key of a settings file."""

    file: str
    text: str
    path: tuple[str, ...] = ()
    admit: Admission = nothing_else
    number: int = 0  # of several tables [[NAME]] which one it is, from 1; 0: there is one
    entry: str = ""  # and what it is called
    overrides: tuple[str, ...] = ()  # of the command line, such as "algorithm.lr=0.1"

    def __truediv__(self, key: str) -> "Location":
        return self._replace(path=(*self.path, key))

    def one_of_several(self, number: int, entry: str) -> "Location":
        """One of the tables [[NAME]] at this place."""
        return self._replace(number=number, entry=entry)

    def __str__(self) -> str:
        if (option := self._option()) is not None:
            return option
        line = self._line()
        where = self.file if line is None else f"{self.file}, line {line}"
        which = f" ({self.path[0]} {self.number}, {self.entry!r})" if self.number else ""
        return f"{where}, {'.'.join(self.path)}{which}" if self.path else where

    def error(self, message: str) -> SettingsError:
        """An error that begins with this place."""
        return SettingsError(f"{self}: {message}")

    def _option(self) -> str | None:
        """The option of the command line that says what stands here, if one does."""
        for override in reversed(self.overrides):
            key = tuple(override.partition("=")[0].strip().split("."))
            if self.path[: len(key)] == key:
                inside = ".".join(self.path[len(key) :])
                return f"--set {override}" + (f", {inside}" if inside else "")
            if self.path and self.path == key[:-1] and key[-1] in ("key", "kind", "scheme"):
                return f"--set {override}"  # what else the table needs depends on it
        return None

    def _line(self) -> int | None:
        """The line of the key, or of the nearest table that holds it; None if given elsewhere."""
        lines = self.text.splitlines()
        for depth in range(len(self.path), 0, -1):
            table, key = ".".join(self.path[: depth - 1]), self.path[depth - 1]
            name = re.escape(".".join(self.path[:depth]))
            inside, seen = "" if depth > 1 else None, 0
            for number, line in enumerate(lines, 1):
                seen += bool(re.match(rf"\s*\[\[\s*{re.escape(self.path[0])}\s*\]\]", line))
                # Of several tables of one name only the lines of the one that is meant count.
                meant = not self.number or seen in (0, self.number)
                if meant and re.match(rf"\s*\[{{1,2}}\s*{name}\s*\]", line):
                    return number
                if found := re.match(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]", line):
                    inside = found.group(1)
                elif (
                    meant
                    and (inside or "") == table
                    and re.match(rf"\s*{re.escape(key)}\s*=", line)
                ):
                    return number
        return None


def whole_numbers(value: Any, place: Location) -> Iterator[tuple[int, Location]]:
    """All whole numbers in a table, with their places."""
    if isinstance(value, int):
        yield value, place
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from whole_numbers(entry, place / key)
    elif isinstance(value, list):
        for entry in value:
            yield from whole_numbers(entry, place)
