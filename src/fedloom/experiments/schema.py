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
from fedloom.experiments.registry import Registry
from fedloom.preparation import PartyFiles, SiteFiles

Schema = dict[str, Any]
_ADDRESS = r"^.+:[A-Za-z_]\w*$"
_NOT_IN_FILES = ("inner", "secret")  # of a wrapper: the method of the file, and what no file holds


def schema() -> Schema:
    """The whole settings file."""
    method = _choice(registries.ALGORITHMS, tag="key", extra={"name": {"type": "string"}})
    wrapper = _choice(registries.WRAPPERS)
    files = [{"required": [name]} for name in ("sites", "parties")]
    dividing = {
        "seed": {"type": "integer", "minimum": 0},
        "test_fraction": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    }
    sweep = _table(SweepSettings)
    sweep["properties"]["over"] = {"type": "object"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fedloom settings",
        "type": "object",
        "properties": {
            "data": {
                "anyOf": [
                    _table(SiteFiles),
                    _table(PartyFiles),
                    {"type": "object", "not": {"anyOf": files}},
                ]
            },
            "partition": _choice(registries.PARTITIONS, tag="scheme", extra=dividing),
            "problem": _choice(registries.PROBLEMS),
            "algorithm": {"anyOf": [method, {"type": "array", "items": method, "minItems": 1}]},
            "wrapper": {"anyOf": [wrapper, {"type": "array", "items": wrapper}]},
            "run": _table(RunSettings),
            "compare": _table(CompareSettings),
            "sweep": sweep,
            "federation": _table(FederationSettings),
        },
        "required": ["data", "problem", "algorithm"],
        "additionalProperties": False,
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
            options.append(table)
    # Which parameters a class has that is named by its address is known when it is loaded.
    elsewhere = {"type": "string", "pattern": _ADDRESS}
    options.append({"type": "object", "properties": {tag: elsewhere}, "required": [tag]})
    return {"type": "object", "oneOf": options}


def _table(cls: type) -> Schema:
    """The parameters of a class."""
    fields = [field for field in dataclasses.fields(cls) if field.name not in _NOT_IN_FILES]
    parts = building.parts_of(cls)
    return {
        "type": "object",
        "properties": {field.name: _field(field, field.name in parts) for field in fields},
        "required": [f.name for f in fields if f.default is dataclasses.MISSING],
        "additionalProperties": False,
    }


def _field(field: dataclasses.Field, is_object: bool) -> Schema:
    if is_object:
        inner = {"type": "object"}
        return {"anyOf": [inner, {"type": "array", "items": inner}]}
    if not field.metadata:
        return {}
    rule = field.metadata["rule"]
    return dict(rule.schema) | {"description": f"{field.metadata['doc']}: {rule.text}"}
