"""Settings files: a run, or a comparison of several methods, written down in TOML.

    [data]         name or path of a dataset, and options of its reader
    [partition]    scheme, and its parameters: who holds what
    [problem]      kind, and its parameters: what is optimised
    [algorithm]    key, and its parameters: how; [[algorithm]] several times to compare methods
    [run]          rounds, batch size, seed, ...
    [compare]      seeds, metric, target, ...
    [federation]   sites, quorum, timeout, ...: where the run is submitted to real sites

The data named "synthetic" are made, not read, and come with their division over clients.
"""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from fedloom import data
from fedloom.data.clients import Clients
from fedloom.errors import SettingsError
from fedloom.experiments import building
from fedloom.experiments.places import Place
from fedloom.hints import closest
from fedloom.parameters import (
    Rule,
    anything,
    at_least,
    flag,
    one_of,
    param,
    parametrised,
    positive,
)
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

_TABLES = ("data", "partition", "problem", "algorithm", "run", "compare", "federation")
_NEEDED = ("data", "problem", "algorithm")
_MADE = "synthetic"
_batch_rule = Rule(
    lambda v: v == "full" or at_least(1).holds(v), 'a whole number >= 1, or "full"', 32
)


@parametrised
class RunSettings:
    """How long a run goes on, and what is looked at."""

    rounds: int = param(at_least(1), "number of rounds", default=100)
    batch_size: int | str = param(_batch_rule, "rows in a stochastic gradient", default=32)
    seed: int = param(at_least(0), "seed of all draws of the run", default=0)
    eval_every: int = param(at_least(1), "rounds between two evaluations", default=10)
    metrics: tuple[str, ...] | None = param(
        anything, "names of metrics; none: the problem's own", default=None
    )
    precision: str = param(one_of("float32", "float64"), "of all numbers", default="float32")

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `simulate`."""
        names = ("rounds", "seed", "eval_every", "metrics", "precision")
        batch_size = None if self.batch_size == "full" else self.batch_size
        return {name: getattr(self, name) for name in names} | {"batch_size": batch_size}


@parametrised
class CompareSettings:
    """How methods are compared."""

    seeds: int = param(at_least(1), "number of seeds, from the run's own on", default=1)
    metric: str | None = param(anything, "what is compared; none: the main metric", default=None)
    target: float | None = param(anything, "a value whose first round is reported", default=None)
    log: bool = param(flag, "whether the picture's vertical axis is logarithmic", default=False)
    title: str = param(anything, "title of the picture", default="")


@parametrised
class FederationSettings:
    """How a run over real sites is led."""

    sites: tuple[str, ...] | None = param(
        anything, "names of the sites; none: all that are connected", default=None
    )
    min_sites: int | None = param(
        at_least(1).or_none("all of them"),
        "sites with fewer of which the run pauses",
        default=None,
    )
    timeout: float = param(positive, "seconds after which a silent site is left out", default=120.0)
    fresh_if_stale: bool = param(
        flag, "whether a site that lost its state may start afresh", default=False
    )
    secure_aggregation: bool = param(
        flag, "whether the hub learns sums of replies only", default=False
    )


class Settings(NamedTuple):
    """A settings file, read and checked; data are loaded when they are asked for."""

    tables: dict[str, Any]  # as read, overrides included
    place: Place
    algorithms: dict[str, Algorithm]  # by name
    problem: Problem
    run: RunSettings
    compare: CompareSettings
    federation: FederationSettings

    @property
    def algorithm(self) -> Algorithm:
        """The method, where there is one."""
        if len(self.algorithms) != 1:
            raise (self.place / "algorithm").error(
                f"`fedloom run` takes one method; got {', '.join(self.algorithms)}. "
                f"Use `fedloom compare`."
            )
        return next(iter(self.algorithms.values()))

    def clients(self) -> Clients:
        """Load the data and divide them."""
        loading = dict(self.tables["data"])
        source = loading.pop("name", None) or loading.pop("path", None)
        place = self.place / "data"
        if source is None:
            raise place.error("needs name or path. Add name = 'digits'.")
        try:
            if source == _MADE:
                return data.synthetic(**loading)
            dataset = data.load(source, **loading)
        except TypeError as error:
            raise place.error(f"{error}. Remove or correct the option.") from error
        dividing = dict(self.tables.get("partition", {}))
        options = {key: dividing.pop(key) for key in ("seed", "test_fraction") if key in dividing}
        scheme = building.scheme(dividing, self.place / "partition")
        return data.partition(dataset, scheme, **options)


def read(path: str | Path, overrides: list[str] | None = None) -> Settings:
    """Read a settings file; overrides are texts such as "algorithm.lr=0.05"."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(f"{file}: there is no such settings file. Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read as text: {error}. Check the file.") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: is not valid TOML: {error}. Correct that line.") from error
    for override in overrides or []:
        _set(tables, override)
    return parse(tables, Place(str(file), text))


def parse(tables: dict[str, Any], place: Place) -> Settings:
    """Check the tables of a settings file."""
    for name in tables:
        if name not in _TABLES:
            raise (place / name).error(
                f"is not a table of a settings file. {closest(name, _TABLES)}"
            )
    for name in _NEEDED:
        if not tables.get(name):
            raise place.error(f"needs a table [{name}]. Add it.")
    return Settings(
        tables,
        place,
        _algorithms(tables["algorithm"], place / "algorithm"),
        building.problem(tables["problem"], place / "problem"),
        building.construct(RunSettings, tables.get("run", {}), place / "run"),
        building.construct(CompareSettings, tables.get("compare", {}), place / "compare"),
        building.construct(FederationSettings, tables.get("federation", {}), place / "federation"),
    )


def _algorithms(tables: Any, place: Place) -> dict[str, Algorithm]:
    """The methods by name: the name they are given, or their key."""
    methods: dict[str, Algorithm] = {}
    for table in tables if isinstance(tables, list) else [tables]:
        parameters = dict(table) if isinstance(table, dict) else table
        name = parameters.pop("name", None) if isinstance(parameters, dict) else None
        method = building.algorithm(parameters, place)
        name = name or table["key"]
        if name in methods:
            raise place.error(f"there are two methods named {name!r}. Add name = ... to one.")
        methods[name] = method
    return methods


def _set(tables: dict[str, Any], override: str) -> None:
    """Apply "table.key=value"; the value is TOML, or else a text."""
    name, equals, text = override.partition("=")
    *path, key = name.strip().split(".")
    if not equals or not path or not key:
        raise SettingsError(
            f"--set must be table.key=value; got {override!r}. Try --set algorithm.lr=0.1."
        )
    table: Any = tables
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SettingsError(f"--set {override}: {part} is no single table. Edit the file.")
    try:
        table[key] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        table[key] = text.strip()
