"""From folders to studies: runs on the same problem and the same data stand together."""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.engines.result import Result, load
from fedloom.errors import DataError


class Run(NamedTuple):
    """A saved result and where it was found."""

    result: Result
    folder: Path
    root: Path  # the folder that was asked for: the run's own, or one that holds several

    @property
    def method(self) -> str:
        """The name it has in its comparison, or its class."""
        parts = [p for p in self.folder.relative_to(self.root).parts if not p.startswith("seed-")]
        return "/".join(parts) or self.result.about["algorithm"].split("(")[0]

    @property
    def variant(self) -> tuple[Any, ...]:
        """What two seeds of one method have in common."""
        about = self.result.about
        return (about["algorithm"], about.get("batch_size"), about.get("precision"), self.root)


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
    variants: dict[str, dict[tuple[Any, ...], list[Result]]] = {}
    for run in runs:
        variants.setdefault(run.method, {}).setdefault(run.variant, []).append(run.result)
    methods = {}
    for name, known in variants.items():
        for number, (variant, results) in enumerate(known.items(), 1):
            label = name if len(known) == 1 else f"{name} ({variant[-1].name})"
            methods[label if label not in methods else f"{label} {number}"] = results
    roots = list(dict.fromkeys(run.root for run in runs))
    first = {root: next(run for run in runs if run.root == root) for root in roots}
    texts = {root: _settings(root) for root in roots}
    return Study(
        _title(runs[0].result, texts[roots[0]]),
        methods,
        [_command(first[root], texts[root]) for root in roots],
        "\n".join(dict.fromkeys(filter(None, texts.values()))),
    )


def _settings(root: Path) -> str:
    file = root / "settings.toml"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _title(result: Result, settings: str) -> str:
    tables = result.about.get("settings") or (tomllib.loads(settings) if settings else {})
    if title := tables.get("compare", {}).get("title"):
        return title
    data = tables.get("data", {})
    source = data.get("name") or Path(data.get("path", "")).name
    problem = result.about["problem"].split("(")[0]
    return f"{source + ', ' if source else ''}{problem} over {len(result.client_names)} clients"


def _command(run: Run, settings: str) -> str:
    about = run.result.about
    if not settings:
        rounds = run.result.final["round"]
        return (
            f"fl.simulate({about['algorithm']}, {about['problem']}, clients, rounds={rounds}, "
            f"batch_size={about.get('batch_size')}, seed={about.get('seed')})"
        )
    verb = "run" if run.folder == run.root else "compare"
    changed = _changes(tomllib.loads(settings), about.get("settings", tomllib.loads(settings)))
    return " ".join([f"fedloom {verb} settings.toml", *(f"--set '{entry}'" for entry in changed)])


def _changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What was changed on the command line, as "table.key=value"."""
    for key, value in after.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            yield from _changes(before[key], value, f"{path}{key}.")
        elif value != before.get(key):
            yield f"{path}{key}={value}"
