"""From the tables of a settings file to the objects that they describe.

A table names a class by a short key and gives its parameters. Unknown keys, missing parameters and
broken rules become errors that say where in the file they stand.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedloom import algorithms, models, problems
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.personal.quantisation import Quantisation
from fedloom.algorithms.wrappers import WRAPPERS
from fedloom.data import SCHEMES
from fedloom.errors import ParameterError
from fedloom.experiments.places import Place
from fedloom.hints import closest
from fedloom.operators import aggregators, compressors
from fedloom.protocol import Algorithm

Registry = Mapping[str, type]

PROBLEMS: Registry = {
    "logistic": problems.Logistic,
    "multinomial": problems.Multinomial,
    "least_squares": problems.LeastSquares,
    "supervised": problems.Supervised,
    "auc": problems.AUC,
    "adversarial": problems.Adversarial,
    "bilinear": problems.Bilinear,
    "personal": problems.Personal,
    "vertical": problems.Vertical,
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
SOLVERS: Registry = {
    "sgda": algorithms.SGDA,
    "saga": algorithms.SAGA,
    "exact": algorithms.Exact,
}
COMPRESSORS: Registry = {
    "identity": compressors.Identity,
    "randk": compressors.RandK,
    "topk": compressors.TopK,
    "random_rounding": compressors.RandomRounding,
    "natural": compressors.Natural,
    "low_rank": compressors.LowRank,
}
AGGREGATORS: Registry = {
    "median": aggregators.Median,
    "trimmed_mean": aggregators.TrimmedMean,
    "krum": aggregators.Krum,
    "multi_krum": aggregators.MultiKrum,
    "geometric_median": aggregators.GeometricMedian,
    "centred_clipping": aggregators.CentredClipping,
    "norm_bound": aggregators.NormBound,
}
MODELS: Registry = models.REGISTRY
ALGORITHMS: Registry = {key: entry.cls for key, entry in CATALOGUE.items()}

# A parameter that is itself an object is a table of its own, with the key of its class in `kind`.
NESTED: Mapping[str, Registry] = {
    "regulariser": REGULARISERS,
    "parts": REGULARISERS,
    "model": MODELS,
    "own": MODELS,
    "solver": SOLVERS,
    "network": MODELS,
    "compressor": COMPRESSORS,
    "aggregator": AGGREGATORS,
}
# These have one class only, so that their tables need no key.
PLAIN: Mapping[str, type] = {"quantise": Quantisation}


def algorithm(table: dict[str, Any], place: Place) -> Algorithm:
    """The method of an [algorithm] table."""
    return build(ALGORITHMS, table, place, tag="key")


def wrapped(method: Algorithm, tables: Any, place: Place) -> Algorithm:
    """The method inside the wrappers of [[wrapper]] tables, each around the ones before it."""
    for table in tables if isinstance(tables, list) else [tables]:
        inside = {**table, "inner": method} if isinstance(table, dict) else table
        method = build(WRAPPERS, inside, place, tag="kind")
    return method


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


def _value(name: str, value: Any, place: Place) -> Any:
    if name in NESTED and isinstance(value, dict):
        return build(NESTED[name], value, place, tag="kind")
    if name in NESTED and isinstance(value, list):
        return tuple(build(NESTED[name], entry, place, tag="kind") for entry in value)
    if name in PLAIN and isinstance(value, dict):
        return construct(PLAIN[name], value, place)
    return value


def describe(made: Any, registry: Registry | None = None, tag: str = "kind") -> dict[str, Any]:
    """The table from which an object would be built again, with all defaults filled in."""
    table: dict[str, Any] = {}
    if registry is not None:
        key = next((key for key, cls in registry.items() if cls is type(made)), None)
        if key is None:
            raise ParameterError(
                f"{type(made).__name__} has no key in settings files, so it cannot be written "
                f"there or sent to sites. Use one of {', '.join(registry)}."
            )
        table[tag] = key
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if field.name in NESTED and isinstance(value, tuple):
            value = [describe(entry, NESTED[field.name]) for entry in value]
        elif field.name in NESTED and value is not None:
            value = describe(value, NESTED[field.name])
        elif field.name in PLAIN and value is not None:
            value = describe(value)
        if value is not None:  # TOML has no null: a missing key says the same
            table[field.name] = value
    return table
