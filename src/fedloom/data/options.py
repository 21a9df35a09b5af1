"""Whether the options of a reader are of the kinds that its annotations say."""

import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from fedloom.errors import ParameterError

_MOST = 2**31 - 1
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda v: isinstance(v, str), "a text"),
    bool: (lambda v: isinstance(v, bool | np.bool_), "true or false"),
    int: (
        lambda v: (
            isinstance(v, numbers.Integral) and not isinstance(v, bool) and abs(int(v)) <= _MOST
        ),
        "a whole number < 2^31",
    ),
    Path: (lambda v: isinstance(v, str | Path), "a path"),
    types.NoneType: (lambda v: v is None, "none"),
}


def check_kinds(owner: object, reader: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise ParameterError for an option of another kind than its annotation."""
    inner: Any = reader.func if isinstance(reader, functools.partial) else reader
    hints = inspect.get_annotations(inner)
    for name, value in options.items():
        if not _fits(value, hints.get(name, Any)):
            usual = inspect.signature(inner).parameters[name].default
            shown = "Change it." if usual is inspect.Parameter.empty else "Change or remove it."
            raise ParameterError(
                f"{owner}: {name} must be {_words(hints[name])}; got {value!r}. {shown}"
            )


def _fits(value: Any, kind: Any) -> bool:
    if kind in _KINDS:
        return _KINDS[kind][0](value)
    inside = typing.get_args(kind)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in inside)
    if typing.get_origin(kind) is Mapping:
        return isinstance(value, Mapping) and all(_fits(v, inside[1]) for v in value.values())
    if kind == Sequence[str]:
        return _is_list(value) and all(_fits(entry, str) for entry in value)
    return True  # shapes, which readers check themselves, and what only Python can pass


def _is_list(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str | bytes | Mapping)


def _words(kind: Any) -> str:
    if kind in _KINDS:
        return _KINDS[kind][1]
    inside = typing.get_args(kind)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_words(option) for option in inside if option is not types.NoneType)
    if typing.get_origin(kind) is Mapping:
        return f"a table, in which each is {_words(inside[1])}"
    return "a list of texts"
