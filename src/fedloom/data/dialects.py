"""The dialect of a CSV file: its separator, decimal mark and encoding, given or detected.

What is given holds for all files that are read together; the rest is detected in each file. An
encoding cannot be detected, so it must be given for files that are not UTF-8; files that are valid
UTF-8 are read as UTF-8 all the same.
"""

import codecs
import csv
import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.errors import DataError
from fedloom.parameters import Rule, one_of, param

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = (",", ";", "\t", "|")
WITH_COMMA = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?\s*$"
_NUMBER = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?\s*$"


def _is_encoding(name: object) -> bool:
    try:
        return isinstance(name, str) and bool(codecs.lookup(name))
    except LookupError:
        return False


def separator_param() -> Any:
    """A field for the character between the fields of a line."""
    rule = one_of(*SEPARATORS).or_none("found in each file")
    return param(rule, "what stands between the fields of a CSV file", default=None)


def decimal_param() -> Any:
    """A field for the decimal mark."""
    rule = one_of(".", ",").or_none("found in each file")
    return param(rule, "the decimal mark of a CSV file", default=None)


def encoding_param() -> Any:
    """A field for the encoding."""
    rule = Rule(_is_encoding, "the name of an encoding", "latin-1", {"type": "string"})
    return param(rule.or_none("UTF-8"), "of CSV files that are not UTF-8", default=None)


@dataclasses.dataclass(frozen=True)
class Dialect:
    """What the user says about CSV files; None: to be detected."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def text(self, path: Path, raw: bytes) -> str:
        """The file as text, without a mark at its beginning."""
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return self._decoded(path, raw, "utf-16")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if self.encoding is not None:
                return self._decoded(path, raw, self.encoding)
            line = raw.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{path}, line {line}: the text must be UTF-8; got byte "
                f"{raw[error.start]:#04x}. Name its encoding, such as encoding = 'latin-1', or "
                f"save the file as UTF-8."
            ) from None

    def _decoded(self, path: Path, raw: bytes, encoding: str) -> str:
        try:
            return raw.decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise DataError(
                f"{path}: the text must be {encoding}, as encoding says ({error}). "
                f"Name another encoding."
            ) from None

    def separator_of(self, text: str, comment: str | None = None) -> str:
        """What stands between fields: the one of SEPARATORS that the first line has most of."""
        if self.separator is not None:
            return self.separator
        lines = (line for line in io.StringIO(text) if line.strip())
        first = next((ln for ln in lines if comment is None or not ln.startswith(comment)), "")
        counts = {mark: _fields(first, mark) for mark in SEPARATORS}
        return max(counts, key=lambda mark: counts[mark])  # of equals the first

    def with_points(self, frame: "pl.DataFrame", separator: str) -> "pl.DataFrame":
        """The table with its numbers read, where commas are decimal marks in it."""
        import polars as pl

        if self.decimal == "." or (self.decimal is None and separator == ","):
            return frame
        read = []
        for series in frame:
            if series.dtype == pl.String:
                there = series.drop_nulls()
                numbers = bool(there.str.contains(_NUMBER).all())
                if numbers and bool(there.str.contains(WITH_COMMA).any()):
                    plain = series.str.replace_all(".", "", literal=True)
                    point = plain.str.replace(",", ".", literal=True).str.strip_chars()
                    series = point.cast(pl.Float64)
            read.append(series)
        return pl.DataFrame(read)


def _fields(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader(io.StringIO(line), delimiter=separator), []))
    except csv.Error:
        return 0
