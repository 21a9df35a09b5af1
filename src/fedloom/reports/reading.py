"""From folders to studies: runs on the same problem and the same data stand together."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.checksums import read_json
from fedloom.errors import DataError, FedloomError
from fedloom.experiments import building, settings
from fedloom.experiments.addresses import short_name
from fedloom.experiments.locations import Location
from fedloom.experiments.registries import PROBLEMS, code_of_others
from fedloom.measuring.result import Result, load


class Run(NamedTuple):
    """A saved result and where it was found."""

    result: Result
    folder: Path
    root: Path  # the folder that was asked for: the run's own, or one that holds several

    @property
    def method(self) -> str:
        """The name it has in its comparison, or its class."""
        parts = [p for p in self.folder.relative_to(self.root).parts if not p.startswith("seed-")]
        return parts[-1] if parts else self.result.about["algorithm"].split("(")[0]

    @property
    def variant(self) -> tuple[Any, ...]:
        """What two seeds of one method have in common."""
        about = self.result.about
        parameters = (about["algorithm"], about.get("batch_size"), about.get("precision"))
        return *parameters, self.folder.parent


class Study(NamedTuple):
    """One problem on one set of clients, and the methods that were run on it."""

    title: str
    methods: dict[str, list[Result]]  # by name, one result a seed
    commands: list[str]  # which run it again
    settings: str  # the text of the settings file; empty where there was none

    @property
    def runs(self) -> list[Result]:
        """All results."""
        return [run for runs in self.methods.values() for run in runs]

    @property
    def columns(self) -> list[str]:
        """The columns of the histories, in their order."""
        return list(dict.fromkeys(name for run in self.runs for name in run.rows[-1]))


def read(folders: Iterable[str | Path]) -> list[Study]:
    """Read run folders and comparison folders."""
    studies: dict[tuple[Any, ...], list[Run]] = {}
    for run in (run for folder in folders for run in _runs(Path(folder))):
        studies.setdefault(_question(run.result), []).append(run)
    return [_study(runs) for runs in studies.values()]


def _runs(root: Path) -> Iterator[Run]:
    # A folder whose name begins with a dot is one that is being written.
    found = [
        path.parent
        for path in sorted(root.rglob("result.json"))
        if not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    if not found:
        raise DataError(
            f"{root} holds no saved result. Give a folder that `fedloom run`, `fedloom compare` or "
            f"Result.save wrote."
        )
    yield from (Run(load(folder), folder, root) for folder in found)


def _question(result: Result) -> tuple[Any, ...]:
    """What results must share to be compared: the problem and who holds what."""
    rows = tuple(tuple(column) for name, column in result.holdings.items() if name != "client")
    return result.about["problem"], tuple(result.client_names), rows


def _study(runs: Sequence[Run]) -> Study:
    variants: dict[str, dict[tuple[Any, ...], list[Run]]] = {}
    for run in runs:
        variants.setdefault(run.method, {}).setdefault(run.variant, []).append(run)
    methods = {}
    for name, known in variants.items():
        for number, seeds in enumerate(known.values(), 1):
            label = name if len(known) == 1 else f"{name} ({seeds[0].root.name})"
            label = label if label not in methods else f"{label} {number}"
            methods[label] = [run.result for run in seeds]
    roots = list(dict.fromkeys(run.root for run in runs))
    first = {root: next(run for run in runs if run.root == root) for root in roots}
    texts = [_text(root / "settings.toml") for root in roots]
    return Study(
        _title(runs[0]),
        methods,
        [_command(first[root]) for root in roots],
        "\n".join(dict.fromkeys(filter(None, texts))),
    )


def _text(file: Path) -> str:
    return settings.text_of(file) if file.exists() else ""


def _tables(root: Path) -> dict[str, Any]:
    """The settings as resolved; empty where the run came from Python."""
    file = root / "settings.json"
    return read_json(file) if file.exists() else {}


def _title(run: Run) -> str:
    tables = _tables(run.root)
    if title := tables.get("compare", {}).get("title"):
        return title
    data = tables.get("data", {})
    source = data.get("name") or Path(data.get("path", "")).name or data.get("label", run.root.name)
    problem = run.result.about["problem"].split("(")[0]
    return f"{source}, {problem} over {len(run.result.client_names)} clients"


def _command(run: Run) -> str:
    """What runs it again: a command with the settings file, or the call in Python."""
    about, file = run.result.about, run.root / "settings.toml"
    if not file.exists():
        return (
            f"fl.simulate({about['algorithm']}, {about['problem']}, clients, "
            f"rounds={int(run.result.final['round'])}, batch_size={about.get('batch_size')}, "
            f"seed={about.get('seed')})"
        )
    verb = "run" if run.folder == run.root else "compare"
    verb = "sweep" if (run.root / "best.json").exists() else verb
    if about.get("engine") == "federation":
        return "fedloom submit settings.toml --kit KIT"
    written = json.loads(json.dumps(_written(file)))
    changed = _changes(written, _tables(run.root))
    return " ".join([f"fedloom {verb} settings.toml", *(f"--set '{entry}'" for entry in changed)])


def _written(file: Path) -> dict[str, Any]:
    """The settings as they were written, with defaults; whoever reads a report executes no code."""
    tables = settings.tables_of(file)
    if not code_of_others(tables):
        return settings.read(file).resolved()
    methods = tables["algorithm"]
    if isinstance(methods, dict):
        methods = [{"name": short_name(methods["key"]), **methods}]
    place = Location(str(file), "")  # which admits fedloom's own only
    problem = tables["problem"]
    with contextlib.suppress(FedloomError):
        problem = building.describe(building.problem(problem, place / "problem"), PROBLEMS)
    stated = {**tables, "problem": problem, "algorithm": methods}
    return stated | settings.options_of(tables, place)


def _changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What was changed on the command line, as "table.key=value"."""
    for key, value in after.items():
        was = before.get(key)
        if not path and (key == settings.CODE or (key == "algorithm" and len(value) > 1)):
            continue  # only a single method can be changed
        if key == "algorithm" and not path:
            was, value = was[0], value[0]
        if isinstance(value, dict) and isinstance(was, dict):
            yield from _changes(was, value, f"{path}{key}.")
        elif value != was:
            yield f"{path}{key}={_toml(value)}"


def _toml(value: Any) -> str:
    """A value as TOML has it in a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
