"""The plain values of a preparation, looked at before anything is made of them.

They come with models and run folders of others, and at a site from the hub.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fedloom.data.dates import dates_rule
from fedloom.errors import DataError

_LARGEST = 2**53  # beyond which whole numbers are not told apart
_FURTHEST = 1e300  # of a mean: no table has a column of such numbers


def check_saved(values: Any) -> None:
    """Raise DataError where these are no values of a preparation."""
    _check("the preparation", values, _WHOLE, ("label", "classes", "columns", "sites"))
    _check_columns(values["columns"])


def check_saved_of_party(values: Any) -> None:
    """Raise DataError where these are no values of the preparation of a single party."""
    _check("the preparation of a party", values, _OF_PARTY, ("id", "columns"))
    _check_columns(values["columns"])


def check_classes(value: Any) -> None:
    """Raise DataError where these are no names of classes, nor None as of a regression."""
    if not _or_none(_classes)(value):
        raise _wrong("the share of the label party", "classes", value)


def _check_columns(columns: list[Any]) -> None:
    for column in columns:
        _check("a column of the preparation", column, _COLUMN, ("name", "missing"))
        words, counts = column.get("words"), column.get("counts")
        if counts is not None and len(counts) != len(words or ()):
            raise _wrong("a column of the preparation", "counts", counts)
    names = [column["name"] for column in columns]
    if not names or len(set(names)) < len(names):
        raise _wrong("the preparation", "columns", names)


def _check(
    what: str, values: Any, fields: Mapping[str, Callable[[Any], bool]], needed: tuple[str, ...]
) -> None:
    if not isinstance(values, dict):
        raise _wrong(what, "whole", values)
    for name in (*needed, *values):
        if name not in values or name not in fields or not fields[name](values[name]):
            raise _wrong(what, name, values.get(name))


def _wrong(what: str, name: object, got: object) -> DataError:
    return DataError(
        f"{what} cannot be used: its {str(name)[:80]!r} is {repr(got)[:80]}. Get an unharmed copy, "
        f"or make it anew."
    )


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _FURTHEST  # nan is not


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value)) and len(set(value)) == len(value)


def _classes(value: Any) -> bool:
    if not isinstance(value, list) or len({str(v) for v in value}) < max(len(value), 1):
        return False
    return all(map(_text, value)) or all(isinstance(v, int | float) for v in value)


def _by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value)) and all(map(_text, value.values()))


def _or_none(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


_COLUMN = {
    "name": _text,
    "missing": _count,
    "mean": _number,
    "deviation": lambda value: _number(value) and value > 0,
    "words": _or_none(_texts),
    "counts": _or_none(lambda value: isinstance(value, list) and all(map(_count, value))),
}
_WHOLE = {
    "label": _text,
    "classes": _or_none(_classes),
    "columns": lambda value: isinstance(value, list),
    "sites": lambda value: isinstance(value, list) and all(isinstance(v, dict) for v in value),
    "bytes_up": _count,
    "bytes_down": _count,
    "left_out": _by_name,
    "dates": dates_rule.holds,
    "encoding": _or_none(_text),
    "event": _or_none(_text),
    "exposure": _or_none(_text),
    "complete": lambda value: isinstance(value, bool),
}
_OF_PARTY = {
    "id": _text,
    "columns": _WHOLE["columns"],
    "dates": dates_rule.holds,
    "encoding": _or_none(_text),
    "standardise": lambda value: isinstance(value, bool),
}
