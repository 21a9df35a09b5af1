"""A method with small values for its parameters, made from its class."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.errors import ParameterError
from fedloom.parameters import Rule
from fedloom.protocol import Algorithm

_SMALL_INTEGERS = (3, 2, 1)
_SMALL_NUMBERS = (0.1, 0.5)


def example(method: Any) -> Algorithm:
    """The method itself, or if a class is given, an object of it with small values."""
    cls = method if inspect.isclass(method) else type(method)
    if not issubclass(cls, Algorithm):
        raise ParameterError(
            f"a method must be an object of a class with @algorithm that inherits from "
            f"Algorithm; got {method!r}. Pass MyMethod(lr=0.1), or its class."
        )
    if "__leaves__" not in vars(cls):
        raise ParameterError(
            f"{cls.__name__} is no method yet: its class does not carry @algorithm. Write it "
            f"above `class {cls.__name__}`; it is in fedloom.protocol."
        )
    return cls(**small_values(cls, {})) if inspect.isclass(method) else method


def small_values(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given parameters, and small values for the others that have no default."""
    for entry in CATALOGUE.values():
        if entry.cls is cls:
            return {**entry.trial, **given}
    values = dict(given)
    for field in dataclasses.fields(cls):
        if field.default is dataclasses.MISSING and field.name not in values:
            rule = field.metadata.get("rule")
            values[field.name] = _small(cls, field.name, rule)
    return values


def _small(cls: type, name: str, rule: Rule | None) -> Any:
    usual = None if rule is None else rule.example
    candidates: tuple[Any, ...] = (usual,)
    if isinstance(usual, int) and not isinstance(usual, bool):
        candidates = (*_SMALL_INTEGERS, usual)
    elif isinstance(usual, float):
        candidates = (*_SMALL_NUMBERS, usual)
    for value in candidates:
        if rule is not None and value is not None and rule.holds(value):
            return value
    raise ParameterError(
        f"{cls.__name__} needs {name}, for which no example is known. Pass "
        f"{cls.__name__}({name}=...), or --set {name}=... on the command line."
    )
