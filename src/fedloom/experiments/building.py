"""From the tables of a settings file to the objects that they describe, and back.

A table names a class by a key and gives its parameters. A parameter that is itself an object is a
table of its own, as its annotation says: one of a base with a registry names its class in `kind`,
one of a single parametrised class needs no key. Unknown keys, missing parameters and broken rules
become errors that say where in the file they stand.
"""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any, Union

from fedloom import problems
from fedloom.data import Dataset
from fedloom.errors import FedloomError, ParameterError
from fedloom.experiments.addresses import line_of, short_name
from fedloom.experiments.locations import Location
from fedloom.experiments.registries import (
    ALGORITHMS,
    DATASETS,
    METRICS,
    OF_PARTS,
    PARTITIONS,
    PROBLEMS,
    WRAPPERS,
)
from fedloom.experiments.registry import Registry
from fedloom.files import check_own_folders
from fedloom.hints import closest
from fedloom.parameters import needed, needs, written
from fedloom.problems.base import Metric
from fedloom.protocol import Algorithm

Metrics = tuple[str, ...] | dict[str, Metric | None]


def algorithms(tables: Any, place: Location) -> dict[str, Algorithm]:
    """The methods by name: the name they are given, their key, or their class's name."""
    methods: dict[str, Algorithm] = {}
    for table, own in each(tables, place, "key"):
        parameters = dict(table) if isinstance(table, dict) else table
        name = parameters.pop("name", None) if isinstance(parameters, dict) else None
        method = build(ALGORITHMS, parameters, own, tag="key")
        name = short_name(table["key"]) if name is None else name
        if not isinstance(name, str) or not name.strip():
            raise (own / "name").error(f"must be a text; got {name!r}. Change it.")
        if name in methods:
            raise own.error(f"there are two methods named {name!r}. Add name = ... to one.")
        methods[name] = method
    try:
        check_own_folders(methods)
    except ParameterError as error:
        raise place.error(str(error)) from error
    return methods


def wrapped(method: Algorithm, tables: Any, place: Location) -> Algorithm:
    """The method inside the wrappers of [[wrapper]] tables, each around the ones before it."""
    for table, own in each(tables, place, "kind"):
        inside = {**table, "inner": method} if isinstance(table, dict) else table
        method = build(WRAPPERS, inside, own, tag="kind")
    return method


def each(tables: Any, place: Location, tag: str) -> Iterator[tuple[Any, Location]]:
    """The tables of one name with their places; of several, places say which one is meant."""
    several = tables if isinstance(tables, list) else [tables]
    for number, table in enumerate(several, 1):
        named = table if isinstance(table, dict) else {}
        called = str(named.get("name") or named.get(tag) or "no name")
        yield table, place.one_of_several(number, called) if len(several) > 1 else place


def problem(table: dict[str, Any], place: Location) -> problems.Problem:
    """The problem of a [problem] table."""
    return build(PROBLEMS, table, place, tag="kind")


def scheme(table: dict[str, Any], place: Location) -> Any:
    """The partition of a [partition] table."""
    return build(PARTITIONS, table, place, tag="scheme")


def dataset(name: str, options: dict[str, Any], place: Location) -> Dataset:
    """What somebody's function returns for the options of a [data] table."""
    function = DATASETS.find(name, place / "name")
    try:
        inspect.signature(function).bind(**options)
    except TypeError as error:
        raise place.error(f"{short_name(name)}: {error}. Remove or add the option.") from error
    try:
        made = function(**options)
    except FedloomError:
        raise
    except Exception as error:
        file = inspect.getsourcefile(function)
        said = f"{type(error).__name__}: {error}"
        raise (place / "name").error(f"{name} failed{line_of(error, file)}: {said}.") from error
    if not isinstance(made, Dataset):
        raise (place / "name").error(
            f"{name} must return a fl.data.Dataset; it returned a {type(made).__name__}. Change it."
        )
    return made


def metrics(names: Any, problem: problems.Problem, place: Location) -> Metrics | None:
    """The metrics of [run], by the columns that they give; those of one's own with their functions.

    A name of the problem or of the engine stands for itself: what it means is known where it is
    measured.
    """
    of_problem = problem.metrics()
    if not isinstance(names, tuple) or not any(
        METRICS.beyond(name) and name not in of_problem for name in names
    ):
        return names
    found: dict[str, Metric | None] = {}
    for name in names:
        own = METRICS.beyond(name) and name not in of_problem
        column = short_name(name) if own else name
        if column in found:
            raise place.error(f"there are two metrics named {column!r}. Rename one of them.")
        found[column] = METRICS.find(name, place) if own else None
    return found


def build(registry: Registry, table: Any, place: Location, tag: str) -> Any:
    """An object of the class that `table[tag]` names, with the rest of the table as parameters."""
    if not isinstance(table, dict):
        raise place.error(f"must be a table; got {table!r}. Write [{'.'.join(place.path)}].")
    parameters = dict(table)
    cls = registry.find(parameters.pop(tag, None), place / tag)
    return construct(cls, parameters, place)


def construct(cls: type, parameters: dict[str, Any], place: Location) -> Any:
    """An object of a parametrised class; errors say where the value stands."""
    fields = {field.name: field for field in written(cls)}
    for name in parameters:
        if name not in fields:
            raise (place / name).error(
                f"is not a parameter of {cls.__name__}. {closest(name, fields)}"
            )
    missing = needed(cls, parameters)
    if missing:
        lines = " and ".join(f"{name} = ..." for name in missing)
        raise place.error(f"{needs(cls, missing)} Add {lines}")
    parts = parts_of(cls)
    values = {
        name: _value(parts.get(name), value, place / name) for name, value in parameters.items()
    }
    try:
        return cls(**values)
    except ParameterError as error:
        raise (place / error.parameter if error.parameter else place).error(str(error)) from error


Part = Registry[type] | type  # a choice of classes, or the one class


@functools.cache
def parts_of(cls: Any) -> dict[str, Part]:
    """The fields of a class that are objects themselves, by their annotations."""
    hints = typing.get_type_hints(cls)
    found = {f.name: next(_parts(hints[f.name]), None) for f in written(cls)}
    return {name: part for name, part in found.items() if part is not None}


def _parts(annotation: Any) -> Iterator[Part]:
    if typing.get_origin(annotation) in (Union, types.UnionType, tuple):
        for option in typing.get_args(annotation):
            yield from _parts(option)
    elif isinstance(annotation, type):
        registry = next((r for base, r in OF_PARTS.items() if issubclass(annotation, base)), None)
        if registry is not None:
            yield registry
        elif "__leaves__" in vars(annotation):
            yield annotation


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _value(part: Part | None, value: Any, place: Location) -> Any:
    if isinstance(part, Registry) and isinstance(value, list) and any(map(_is_table, value)):
        return tuple(build(part, entry, place, tag="kind") for entry in value)
    if isinstance(part, Registry) and isinstance(value, dict):
        return build(part, value, place, tag="kind")
    if isinstance(part, type) and isinstance(value, dict):
        return construct(part, value, place)
    if isinstance(part, type) and isinstance(value, list) and all(map(_is_table, value)):
        return tuple(construct(part, entry, place) for entry in value)
    return value


def describe(made: Any, registry: Registry | None = None, tag: str = "kind") -> dict[str, Any]:
    """The table from which an object would be built again, with all defaults filled in."""
    table: dict[str, Any] = {} if registry is None else {tag: registry.key_of(type(made))}
    cls: Any = type(made)
    parts = parts_of(cls)
    for field in written(made):
        value = getattr(made, field.name)
        if value is not None:  # TOML has no null: a missing key says the same
            table[field.name] = _described(parts.get(field.name), value)
    return table


def _described(part: Part | None, value: Any) -> Any:
    if part is not None and isinstance(value, tuple):
        return [_described(part, entry) for entry in value]
    if part is None or not dataclasses.is_dataclass(value):
        return value
    return describe(value, part if isinstance(part, Registry) else None)
