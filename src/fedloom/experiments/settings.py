"""Settings files: a run, or a comparison of several methods, written down in TOML.

    [data]         name or path of a dataset, and options of its reader
    [partition]    scheme, and its parameters: who holds what
    [problem]      kind, and its parameters: what is optimised
    [algorithm]    key, and its parameters: how; [[algorithm]] several times to compare methods
    [[wrapper]]    kind, and its parameters: private or unreliable clients, around every method
    [run]          rounds, batch size, seed, ...
    [compare]      seeds, metric, target, ...
    [sweep]        search, validation, ..., and in [sweep.over] the values of each field
    [federation]   sites, quorum, timeout, ...: where the run is submitted to real sites

Data of your own have `sites`, a folder or pattern with a file for each site, and `label`; they are
divided already, so there is no [partition]. Files of parties with other columns of the same people
have `parties`, `id` and `label` instead.
The data named "synthetic" are made, not read, and come with their division over clients.

Instead of a key, an address names something of your own: `my_method.py:MyMethod`, in a file beside
the settings file, or `package.module:MyMethod`.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom import data, files
from fedloom.algorithms.wrappers.base import innermost
from fedloom.algorithms.wrappers.robust import check_not_summed
from fedloom.checksums import read_json
from fedloom.data.parties import Holders
from fedloom.errors import MissingDataError, ProtocolError, SettingsError
from fedloom.experiments import building, registries
from fedloom.experiments.addresses import (
    CODE,
    check_unchanged,
    digests,
    name_files_absolutely,
)
from fedloom.experiments.known_code import admitted, also
from fedloom.experiments.locations import Admission, Location, whatever_is_named, whole_numbers
from fedloom.experiments.options import (
    CompareSettings,
    FederationSettings,
    RunSettings,
    SweepSettings,
)
from fedloom.experiments.overrides import apply_overrides
from fedloom.hints import closest
from fedloom.preparation import PartyFiles, SiteFiles
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

_TABLES = (
    *("data", "partition", "problem", "algorithm", "wrapper"),
    *("run", "compare", "sweep", "federation"),
)
_NEEDED = ("data", "problem", "algorithm")
_SEVERAL = ("algorithm", "wrapper")
_MADE = "synthetic"


class Settings(NamedTuple):
    """A settings file, read and checked; data are loaded when they are asked for."""

    tables: dict[str, Any]  # as read, overrides included, with files named absolutely
    place: Location
    algorithms: dict[str, Algorithm]  # by name
    problem: Problem
    run: RunSettings
    metrics: building.Metrics | None  # by the columns that they give; None: the problem's own
    compare: CompareSettings
    sweep: SweepSettings
    over: dict[str, Any]  # the values that a sweep tries, by field
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

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `simulate`, with metrics of one's own among them."""
        return self.run.options() | {"metrics": self.metrics}

    def resolved(self) -> dict[str, Any]:
        """The tables with overrides applied and defaults filled in; they parse to the same."""
        methods = [
            {"name": name, **building.describe(innermost(method), registries.ALGORITHMS, tag="key")}
            for name, method in self.algorithms.items()
        ]
        described = {
            "problem": building.describe(self.problem, registries.PROBLEMS),
            "algorithm": methods,
        }
        files = digests(self.tables)
        options = options_of(self.tables, self.place)
        return self.tables | described | options | ({CODE: files} if files else {})

    def clients(self) -> Holders:
        """Load the data and divide them."""
        loading = dict(self.tables["data"])
        if "sites" in loading:
            return self._files(SiteFiles).clients()
        if "parties" in loading:
            return self._files(PartyFiles).load()
        source = loading.pop("name", None) or loading.pop("path", None)
        place = self.place / "data"
        if source is None:
            raise place.error("needs name, path or sites. Add name = 'digits'.")
        try:
            if source == _MADE:
                return data.synthetic(**loading)
            if registries.DATASETS.beyond(source):
                dataset = building.dataset(source, loading, place)
            else:
                dataset = data.load(source, **loading)
        except TypeError as error:
            raise place.error(f"{error}. Remove or correct the option.") from error
        dividing = dict(self.tables.get("partition", {}))
        shared = ("seed", "test_fraction", "normalise")  # of all schemes
        options = {key: dividing.pop(key) for key in shared if key in dividing}
        scheme = building.scheme(dividing, self.place / "partition")
        return data.partition(dataset, scheme, **options)

    def clients_of(self, seed: int) -> Holders:
        """The clients of a run with a seed: where each has its own division, divided by it."""
        return self._redivided(seed).clients() if self.compare.redivide else self.clients()

    def _redivided(self, seed: int) -> "Settings":
        loading = self.tables["data"]
        files = "sites" in loading or "parties" in loading
        if files and not loading.get("test_fraction"):
            raise (self.place / "compare" / "redivide").error(
                "draws test rows anew for every seed, and there is no share of rows to draw. Add "
                "test_fraction = 0.2 to [data]."
            )
        table = "data" if files or loading.get("name") == _MADE else "partition"
        changed = {**self.tables.get(table, {}), "seed": seed}
        return self._replace(tables=self.tables | {table: changed})

    def _files(self, kind: type) -> Any:
        if "partition" in self.tables:
            raise (self.place / "partition").error(
                "files of sites are divided already. Remove this table, or put a name in [data]."
            )
        return building.construct(kind, self.tables["data"], self.place / "data")


def read(path: str | Path, overrides: list[str] | None = None) -> Settings:
    """Read a settings file; overrides are texts such as "algorithm.lr=0.05"."""
    tables, place = unread(path, overrides)
    return _parse_file(tables, Path(path), place.text, overrides, whatever_is_named)


def unread(path: str | Path, overrides: list[str] | None = None) -> tuple[dict[str, Any], Location]:
    """The tables of a settings file with overrides, before anything that they name is loaded."""
    file = Path(path)
    tables = tables_of(file)
    if overrides:
        apply_overrides(tables, overrides)
    return tables, Location(str(file), text_of(file))


def read_again(
    folder: str | Path, overrides: list[str] | None = None, trust: Sequence[str] = ()
) -> Settings:
    """Read the settings that a run or a comparison left in its folder.

    They may have come from somebody else: code is loaded because the user has run these settings,
    trusts it, or names it in the overrides.
    """
    file, written = (files.inside(Path(folder), f"settings.{kind}") for kind in ("json", "toml"))
    try:
        tables = read_json(file)
    except MissingDataError:
        raise SettingsError(f"{file}: there is no such settings file. Check the path.") from None
    tables, admit = admitted(tables, str(folder), trust)
    check_unchanged(tables.pop(CODE, {}), folder)
    own: dict[str, Any] = {}
    apply_overrides(own, overrides or ())
    name_files_absolutely(own, file.resolve().parent)
    apply_overrides(tables, overrides or ())
    return _parse_file(tables, file, text_of(written), overrides, also(admit, own))


def _parse_file(
    tables: dict[str, Any],
    file: Path,
    text: str,
    overrides: list[str] | None,
    admit: Admission,
) -> Settings:
    """Check settings that lie on this machine."""
    place = Location(str(file), text, admit=admit, overrides=tuple(overrides or ()))
    _check_tables(tables, place)
    name_files_absolutely(tables, file.resolve().parent)
    return parse(tables, place)


def tables_of(file: Path) -> dict[str, Any]:
    """The tables of a settings file, as they are written."""
    try:
        return tomllib.loads(text_of(file))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: is not valid TOML: {error}. Correct that line.") from error


def text_of(file: Path) -> str:
    """The text of a settings file."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(f"{file}: there is no such settings file. Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read as text: {error}. Check the file.") from error


def parse(tables: dict[str, Any], place: Location) -> Settings:
    """Check the tables of a settings file; `place.admit` says which code they may have loaded."""
    _check_tables(tables, place)
    for name in _NEEDED:
        if not tables.get(name):
            raise place.error(f"needs a table [{name}]. Add it.")
    searching = dict(tables.get("sweep", {}))
    over = searching.pop("over", {})
    problem = building.problem(tables["problem"], place / "problem")
    run = building.construct(RunSettings, tables.get("run", {}), place / "run")
    settings = Settings(
        tables,
        place,
        {
            name: building.wrapped(method, tables.get("wrapper", []), place / "wrapper")
            for name, method in building.algorithms(
                tables["algorithm"], place / "algorithm"
            ).items()
        },
        problem,
        run,
        building.metrics(run.metrics, problem, place / "run" / "metrics"),
        building.construct(CompareSettings, tables.get("compare", {}), place / "compare"),
        building.construct(SweepSettings, searching, place / "sweep"),
        over,
        building.construct(FederationSettings, tables.get("federation", {}), place / "federation"),
    )
    if settings.federation.secure_aggregation:
        try:
            for method in settings.algorithms.values():
                check_not_summed(method)
        except ProtocolError as error:
            raise (place / "federation" / "secure_aggregation").error(str(error)) from error
    return settings


def _check_tables(tables: dict[str, Any], place: Location) -> None:
    """That all are known, and are tables, but for those of which a file may have several."""
    for name, table in tables.items():
        if name not in _TABLES:
            raise (place / name).error(
                f"is not a table of a settings file. {closest(name, _TABLES)}"
            )
        if name not in _SEVERAL and not isinstance(table, dict):
            raise (place / name).error(f"must be a table; got {table!r}. Write [{name}].")
    over = tables.get("sweep", {}).get("over", {})
    if not isinstance(over, dict):
        raise (place / "sweep" / "over").error(
            f"must be a table with the values of each field; got {over!r}. Write [sweep.over] and, "
            f"below it, lr = [0.01, 0.1]."
        )
    for number, own in whole_numbers(tables, place):
        if not -(2**63) <= number < 2**63:
            raise own.error(f"must be a number of 64 bits, as TOML has them; got {number}. Try 10.")


def options_of(tables: dict[str, Any], place: Location) -> dict[str, Any]:
    """The tables of a settings file that say how it is run, with defaults filled in."""
    kinds = {"run": RunSettings, "compare": CompareSettings, "federation": FederationSettings}
    described = {
        name: building.describe(building.construct(kind, tables.get(name, {}), place / name))
        for name, kind in kinds.items()
    }
    searching = dict(tables.get("sweep", {}))
    over = searching.pop("over", {})
    sweep = building.construct(SweepSettings, searching, place / "sweep")
    return described | {"sweep": building.describe(sweep) | {"over": over}}
