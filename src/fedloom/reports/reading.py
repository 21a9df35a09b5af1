"""Read run folders as studies: runs on the same problem and the same data belong together."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.checksums import read_json
from fedloom.errors import DataError
from fedloom.experiments import settings
from fedloom.experiments.comparing import COMPARED
from fedloom.experiments.divisions import REDIVIDED
from fedloom.experiments.folder import SWEEP
from fedloom.experiments.rows_of_methods import Asked
from fedloom.files import inside
from fedloom.measuring.result import Result, load
from fedloom.pictures import labels


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
    def seed(self) -> int | None:
        """That of all its draws."""
        return self.result.about.get("seed")

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
    asked: Asked  # the main column and what tables shall say beside it
    sweeps: list[dict[str, Any]]  # what sweeps have left: metric, larger_is_better, over, trials

    @property
    def runs(self) -> list[Result]:
        """All results."""
        return [run for runs in self.methods.values() for run in runs]

    @property
    def redivided(self) -> bool:
        """Whether every seed has its own division into training and test rows."""
        return any(run.about.get(REDIVIDED) for run in self.runs)

    @property
    def columns(self) -> list[str]:
        """The columns of the histories, in their order."""
        return list(dict.fromkeys(name for run in self.runs for name in run.rows[-1]))

    def label(self, column: str) -> str:
        """A column in words."""
        return labels.label(column, self.columns)


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
    runs = [Run(load(folder), folder, root) for folder in found]
    names = [table["name"] for table in _tables(root).get("algorithm", ())]
    # As the settings have them; what they do not name comes after, by the names of folders.
    yield from sorted(
        runs, key=lambda run: names.index(run.method) if run.method in names else len(names)
    )


def _question(result: Result) -> tuple[Any, ...]:
    """What results must share to be compared: the problem and who holds what.

    Where every seed divides rows anew, who the clients are has to do.
    """
    if result.about.get(REDIVIDED):
        return result.about["problem"], tuple(result.client_names), REDIVIDED
    rows = tuple(tuple(column) for name, column in result.holdings.items() if name != "client")
    return result.about["problem"], tuple(result.client_names), rows


def _study(runs: Sequence[Run]) -> Study:
    variants: dict[str, dict[tuple[Any, ...], list[Run]]] = {}
    for run in runs:
        known, copy = variants.setdefault(run.method, {}), 0
        # A seed counts once: a run that was made or named again stands for itself.
        while any(run.seed == other.seed for other in known.get((*run.variant, copy), ())):
            copy += 1
        known.setdefault((*run.variant, copy), []).append(run)
    methods = {}
    for name, known in variants.items():
        for number, seeds in enumerate(known.values(), 1):
            label = name if len(known) == 1 else f"{name} ({seeds[0].root.name})"
            label = label if label not in methods else f"{label} {number}"
            methods[label] = [run.result for run in seeds]
    roots = list(dict.fromkeys(run.root for run in runs))
    first = {root: next(run for run in runs if run.root == root) for root in roots}
    texts = [_text(root) for root in roots]
    return Study(
        _title(runs[0]),
        methods,
        [_command(first[root]) for root in roots],
        "\n".join(dict.fromkeys(filter(None, texts))),
        _asked(runs, methods),
        [read_json(inside(root, SWEEP)) for root in roots if (root / SWEEP).exists()],
    )


def _text(root: Path) -> str:
    """The settings file, for the page; raises where it is something else."""
    file = inside(root, "settings.toml")
    if not file.exists():
        return ""
    settings.tables_of(file)
    return settings.text_of(file)


def _tables(root: Path) -> dict[str, Any]:
    """The settings as resolved; empty where the run came from Python."""
    file = inside(root, "settings.json")
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
    """What runs it again, where the report was asked for: a command, or the call in Python."""
    about, file = run.result.about, run.root / "settings.toml"
    if not file.exists():
        return (
            f"fl.simulate({about['algorithm']}, {about['problem']}, clients, "
            f"rounds={int(run.result.final['round'])}, batch_size={about.get('batch_size')}, "
            f"seed={about.get('seed')})"
        )
    verb = "run" if run.folder == run.root else "compare"
    verb = "sweep" if (run.root / SWEEP).exists() else verb
    if about.get("engine") == "federation":
        return f"fedloom submit {shlex.quote(str(file))} --kit KIT"
    return f"fedloom {verb} {shlex.quote(str(file))}"


def _asked(runs: Sequence[Run], methods: Collection[str]) -> Asked:
    """What the first settings ask of the table, as far as it is there; else the main column."""
    how, there = _tables(runs[0].root).get("compare", {}), runs[0].result.final
    main = how.get("metric") or runs[0].result.about.get(COMPARED)
    named = (main, *how.get("metrics", ()))
    metrics = tuple(name for name in dict.fromkeys(named) if name in there)
    paired = how.get("paired") if how.get("paired") in methods else None
    return Asked(
        metrics or (runs[0].result.headline or "round",),
        how.get("target"),
        how.get("interval"),
        paired,
    )
