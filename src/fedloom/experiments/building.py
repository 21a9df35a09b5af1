"""From the tables of a settings file to the objects that they describe.

A table names a class by a short key and gives its parameters. Unknown keys, missing parameters and
broken rules become errors that say where in the file they stand.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedloom import models, problems
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.data import SCHEMES
from fedloom.errors import ParameterError
from fedloom.experiments.places import Place
from fedloom.hints import closest
from fedloom.protocol import Algorithm

Registry = Mapping[str, type]

PROBLEMS: Registry = {
    "logistic": problems.Logistic,
    "multinomial": problems.Multinomial,
    "least_squares": problems.LeastSquares,
    "supervised": problems.Supervised,
}
REGULARISERS: Registry = {
    "zero": problems.Zero,
    "l1": problems.L1,
    "group_l1": problems.GroupL1,
    "elastic_net": problems.ElasticNet,
    "nuclear_norm": problems.NuclearNorm,
    "box": problems.Box,
    "ball": problems.Ball,
    "simplex": problems.Simplex,
    "sum": problems.Sum,
}
MODELS: Registry = {"mlp": models.MLP, "cnn": models.CNN}
ALGORITHMS: Registry = {key: entry.cls for key, entry in CATALOGUE.items()}

# A parameter that is itself an object is a table of its own, with the key of its class in `kind`.
_NESTED: Mapping[str, Registry] = {
    "regulariser": REGULARISERS,
    "parts": REGULARISERS,
    "model": MODELS,
}


def algorithm(table: dict[str, Any], place: Place) -> Algorithm:
    """The method of an [algorithm] table."""
    return build(ALGORITHMS, table, place, tag="key")


def problem(table: dict[str, Any], place: Place) -> problems.Problem:
    """The problem of a [problem] table."""
    return build(PROBLEMS, table, place, tag="kind")


def scheme(table: dict[str, Any], place: Place) -> Any:
    """The partition of a [partition] table."""
    return build(SCHEMES, table, place, tag="scheme")


def build(registry: Registry, table: Any, place: Place, tag: str) -> Any:
    """An object of the class that `table[tag]` names, with the rest of the table as parameters."""
    if not isinstance(table, dict):
        raise place.error(f"must be a table; got {table!r}. Write [{'.'.join(place.path)}].")
    parameters = dict(table)
    key = parameters.pop(tag, None)
    if key not in registry:
        got = "nothing" if key is None else repr(key)
        raise (place / tag).error(f"must be a known key; got {got}. {closest(str(key), registry)}")
    return construct(registry[key], parameters, place)


def construct(cls: type, parameters: dict[str, Any], place: Place) -> Any:
    """An object of a parametrised class; errors say where the value stands."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in parameters:
        if name not in fields:
            raise (place / name).error(
                f"is not a parameter of {cls.__name__}. {closest(name, fields)}"
            )
    for name, field in fields.items():
        if field.default is dataclasses.MISSING and name not in parameters:
            raise place.error(
                f"{cls.__name__} needs {name}: {field.metadata['doc']}, "
                f"{field.metadata['rule'].text}. Add {name} = ..."
            )
    values = {name: _value(name, value, place / name) for name, value in parameters.items()}
    try:
        return cls(**values)
    except ParameterError as error:
        raise (place / error.parameter if error.parameter else place).error(str(error)) from error


def table_of(registry: Registry, thing: Any, tag: str) -> dict[str, Any]:
    """The table from which `build` would make this object again."""
    key = next((key for key, cls in registry.items() if type(thing) is cls), None)
    if key is None:
        raise ParameterError(
            f"{type(thing).__name__} has no key in settings files, so it cannot be sent to sites. "
            f"Use one of {', '.join(registry)}."
        )
    fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    plain = {name: _plain(name, value) for name, value in fields.items()}
    return {tag: key} | {name: value for name, value in plain.items() if value is not None}


def _plain(name: str, value: Any) -> Any:
    if name in _NESTED and isinstance(value, tuple):
        return [table_of(_NESTED[name], part, "kind") for part in value]
    if name in _NESTED and value is not None:
        return table_of(_NESTED[name], value, "kind")
    return list(value) if isinstance(value, tuple) else value


def _value(name: str, value: Any, place: Place) -> Any:
    if name in _NESTED and isinstance(value, dict):
        return build(_NESTED[name], value, place, tag="kind")
    if name in _NESTED and isinstance(value, list):
        return tuple(build(_NESTED[name], entry, place, tag="kind") for entry in value)
    return value
