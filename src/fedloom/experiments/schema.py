"""The JSON Schema of settings files, made from the same rules that check them."""

import dataclasses
from typing import Any

from fedloom.experiments import building, registries
from fedloom.experiments.options import (
    CompareSettings,
    FederationSettings,
    RunSettings,
    SweepSettings,
)
from fedloom.experiments.readers import Option, options_of_data, options_of_path
from fedloom.experiments.registry import Registry
from fedloom.parameters import written
from fedloom.preparation import PartyFiles, SiteFiles

Schema = dict[str, Any]
_ADDRESS = r"^.+:[A-Za-z_]\w*$"
_NOT_IN_FILES = ("inner", "secret")  # of a wrapper: the method of the file, and what no file holds


def schema() -> Schema:
    """The whole settings file."""
    method = _choice(registries.ALGORITHMS, tag="key", extra={"name": {"type": "string"}})
    wrapper = _choice(registries.WRAPPERS)
    dividing = {
        "seed": {"type": "integer", "minimum": 0, "description": "seed of the division"},
        "test_fraction": {
            "type": "number",
            "minimum": 0,
            "exclusiveMaximum": 1,
            "description": "part of each client's rows that is held out for testing",
        },
        "normalise": {
            "type": "boolean",
            "description": "whether channels of images get mean 0 and deviation 1",
        },
    }
    run, sweep = _table(RunSettings), _table(SweepSettings)
    run["properties"]["metrics"] |= {"type": "array", "items": _metric()}
    sweep["properties"]["over"] = {"type": "object", "description": "values to try, by field"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fedloom settings",
        "type": "object",
        "properties": {
            "data": {
                "anyOf": [_table(SiteFiles), _table(PartyFiles), *_datasets(), _path(), _columns()]
            },
            "partition": _choice(registries.PARTITIONS, tag="scheme", extra=dividing),
            "problem": _choice(registries.PROBLEMS),
            "algorithm": {"anyOf": [method, {"type": "array", "items": method, "minItems": 1}]},
            "wrapper": {"anyOf": [wrapper, {"type": "array", "items": wrapper}]},
            "run": run,
            "compare": _table(CompareSettings),
            "sweep": sweep,
            "federation": _table(FederationSettings),
        },
        "required": ["data", "problem", "algorithm"],
        "additionalProperties": False,
        "$defs": {part.kind: _choice(part) for part in registries.OF_PARTS.values()},
    }


def _choice(registry: Registry[type], tag: str = "kind", extra: Schema | None = None) -> Schema:
    """A table that names a class, fedloom's own or a package's, and gives its parameters."""
    options = []
    for known in registry.known():
        if known.thing is not None:
            table = _table(known.thing)
            table["properties"] = {
                tag: {"const": known.key}, **(extra or {}), **table["properties"]
            }  # fmt: skip
            table["required"] = [tag, *table["required"]]
            table["description"] = _first_line(known.thing)
            options.append(table)
    # Which parameters a class has that is named by its address is known when it is loaded.
    elsewhere = {"type": "string", "pattern": _ADDRESS}
    options.append({"type": "object", "properties": {tag: elsewhere}, "required": [tag]})
    return {"type": "object", "oneOf": options}


def _datasets() -> list[Schema]:
    """Tables that name a dataset: fedloom's own with their options, those of others with any."""
    found = []
    for known in registries.DATASETS.known():
        if known.key in registries.DATASETS:
            found.append(_options({"name": {"const": known.key}}, options_of_data(known.thing)))
        elif known.thing is not None:
            named = {"name": {"const": known.key}}
            found.append({"type": "object", "properties": named, "required": ["name"]})
    elsewhere = {"name": {"type": "string", "pattern": _ADDRESS}}
    return [*found, {"type": "object", "properties": elsewhere, "required": ["name"]}]


def _path() -> Schema:
    """A table that names a file or folder, with the options of some reader."""
    where = {"type": "string", "description": "a file or folder, told by its suffix"}
    return _options({"path": where}, {o.name: o for o in options_of_path()}.values(), needed=False)


def _columns() -> Schema:
    """What concerns the columns only: over a network every site has its own rows."""
    others = [{"required": [name]} for name in ("name", "path", "sites", "parties")]
    return {"type": "object", "required": ["label"], "not": {"anyOf": others}}


def _options(named: Schema, options: Any, *, needed: bool = True) -> Schema:
    listed: list[Option] = list(options)
    return {
        "type": "object",
        "properties": named | {o.name: {"description": o.doc} for o in listed},
        "required": [*named, *(o.name for o in listed if needed and o.required)],
        "additionalProperties": False,
    }


def _metric() -> Schema:
    names = [known.key for known in registries.METRICS.known() if known.thing is not None]
    # A problem may have metrics of its own: an editor proposes these names, and takes others.
    return {"anyOf": [{"enum": names}, {"type": "string"}]}


def _table(cls: type) -> Schema:
    """The parameters of a class."""
    fields = [field for field in written(cls) if field.name not in _NOT_IN_FILES]
    parts = building.parts_of(cls)
    return {
        "type": "object",
        "properties": {field.name: _field(field, parts.get(field.name)) for field in fields},
        "required": [f.name for f in fields if f.default is dataclasses.MISSING],
        "additionalProperties": False,
    }


def _field(field: dataclasses.Field, part: building.Part | None) -> Schema:
    if part is not None:
        inner = {"$ref": f"#/$defs/{part.kind}"} if isinstance(part, Registry) else _table(part)
        doc = {"description": field.metadata["doc"]} if field.metadata else {}
        number = field.metadata and dict(field.metadata["rule"].schema)  # a step size may be one
        several = {"type": "array", "items": inner}
        return {"anyOf": [inner, number or several], **doc}
    if not field.metadata:
        return {}
    rule = field.metadata["rule"]
    return dict(rule.schema) | {"description": f"{field.metadata['doc']}: {rule.text}"}


def _first_line(thing: Any) -> str:
    return next(iter((thing.__doc__ or "").strip().splitlines()), "")
