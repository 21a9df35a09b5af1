"""Where in a settings file something stands, so that an error can say it."""

import re
from typing import NamedTuple

from fedloom.errors import SettingsError


class Place(NamedTuple):
    """A table or a key of a settings file."""

    file: str
    text: str
    path: tuple[str, ...] = ()

    def __truediv__(self, key: str) -> "Place":
        return self._replace(path=(*self.path, key))

    def __str__(self) -> str:
        line = self._line()
        where = self.file if line is None else f"{self.file}, line {line}"
        return f"{where}, {'.'.join(self.path)}" if self.path else where

    def error(self, message: str) -> SettingsError:
        """An error that begins with this place."""
        return SettingsError(f"{self}: {message}")

    def _line(self) -> int | None:
        """The line of the key, or of the nearest table that holds it; None if given elsewhere."""
        lines = self.text.splitlines()
        for depth in range(len(self.path), 0, -1):
            table, key = ".".join(self.path[: depth - 1]), self.path[depth - 1]
            header = rf"\[\s*{re.escape('.'.join(self.path[:depth]))}\s*\]"
            inside = "" if depth > 1 else None
            for number, line in enumerate(lines, 1):
                if re.match(rf"\s*{header}", line):
                    return number
                if found := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
                    inside = found.group(1)
                elif (inside or "") == table and re.match(rf"\s*{re.escape(key)}\s*=", line):
                    return number
        return None
