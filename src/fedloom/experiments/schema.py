"""The JSON Schema of settings files, made from the same rules that check them."""

import dataclasses
from typing import Any

from fedloom.algorithms.wrappers import WRAPPERS
from fedloom.data import SCHEMES
from fedloom.experiments import building
from fedloom.experiments.options import (
    CompareSettings,
    FederationSettings,
    RunSettings,
    SweepSettings,
)
from fedloom.preparation import PartyFiles, SiteFiles

Schema = dict[str, Any]
_NOT_IN_FILES = ("inner", "secret")  # of a wrapper: the method of the file, and what no file holds


def schema() -> Schema:
    """The whole settings file."""
    method = _choice(building.ALGORITHMS, tag="key", extra={"name": {"type": "string"}})
    wrapper = _choice(WRAPPERS)
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
            "partition": _choice(SCHEMES, tag="scheme", extra=dividing),
            "problem": _choice(building.PROBLEMS),
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


def _choice(registry: building.Registry, tag: str = "kind", extra: Schema | None = None) -> Schema:
    """A table that names a class and gives its parameters."""
    options = []
    for key, cls in registry.items():
        table = _table(cls)
        table["properties"] = {tag: {"const": key}, **(extra or {}), **table["properties"]}
        table["required"] = [tag, *table["required"]]
        options.append(table)
    return {"type": "object", "oneOf": options}


def _table(cls: type) -> Schema:
    """The parameters of a class."""
    fields = [field for field in dataclasses.fields(cls) if field.name not in _NOT_IN_FILES]
    return {
        "type": "object",
        "properties": {field.name: _field(field) for field in fields},
        "required": [f.name for f in fields if f.default is dataclasses.MISSING],
        "additionalProperties": False,
    }


def _field(field: dataclasses.Field) -> Schema:
    if field.name in building.NESTED or field.name in building.PLAIN:
        inner = {"type": "object"}
        return {"anyOf": [inner, {"type": "array", "items": inner}]}
    if not field.metadata:
        return {}
    rule = field.metadata["rule"]
    return dict(rule.schema) | {"description": f"{field.metadata['doc']}: {rule.text}"}
