"""Read run folders as studies: runs on the same problem and the same data belong together."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.checksums import read_json
from fedloom.data.fingerprints import differ
from fedloom.errors import DataError
from fedloom.experiments import settings
from fedloom.experiments.comparing import COMPARED
from fedloom.experiments.divisions import REDIVIDED
from fedloom.experiments.folder import SWEEP
from fedloom.experiments.rows_of_methods import Asked
from fedloom.experiments.same_rows import DIVISION, FEATURES
from fedloom.files import inside
from fedloom.measuring.result import Result, load
from fedloom.pictures import labels

_MOST_NAMED = 3  # methods in a title


class Run(NamedTuple):
    """A saved result and where it was found."""

    result: Result
    folder: Path
    root: Path  # the folder that was asked for: the run's own, or one that holds several

    @property
    def method(self) -> str:
        """The name it has in its comparison, or its class without what is around it."""
        parts = [p for p in self.folder.relative_to(self.root).parts if not p.startswith("seed-")]
        return parts[-1] if parts else innermost_name(self.result.about["algorithm"])

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

    def has_data_of(self, other: "Run") -> bool:
        """Whether nothing is known by which the same rows have other features in another run."""
        own, theirs = self.result.about, other.result.about
        divided_alike = own.get(DIVISION) == theirs.get(DIVISION)
        return not (divided_alike and differ(own.get(FEATURES), theirs.get(FEATURES)))


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
    groups = (alike for runs in studies.values() for alike in _of_one_data(runs))
    return _told_apart([_study(alike) for alike in groups])


def _of_one_data(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that divide rows alike, apart where their features are known to be others."""
    groups: list[list[Run]] = []
    for run in runs:
        same = (group for group in groups if all(map(run.has_data_of, group)))
        group = next(same, None)
        if group is None:
            groups.append(group := [])
        group.append(run)
    return groups


def _told_apart(studies: list[Study]) -> list[Study]:
    """Studies of one title are numbered."""
    titles = [study.title for study in studies]
    return [
        study
        if titles.count(study.title) == 1
        else study._replace(title=f"{study.title} ({titles[:place].count(study.title) + 1})")
        for place, study in enumerate(studies)
    ]


def _runs(root: Path) -> Iterator[Run]:
    # A folder whose name begins with a dot is one that is being written.
    found = [
        inside(root, str(path.parent.relative_to(root)))
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
        _title(runs[0], list(methods)),
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


def _title(run: Run, methods: Sequence[str]) -> str:
    """What a person calls it: the methods, the data and who has them."""
    tables = _tables(run.root)
    if title := tables.get("compare", {}).get("title"):
        return title
    what, data = _listed(methods), tables.get("data", {})
    if source := data.get("name") or Path(data.get("path", "")).name:
        what = f"{what} on {source}"
    elif "label" in data:
        what = f"{what} for {data['label']!r}"
    else:
        what = f"{run.root.resolve().name}: {what}"
    count = len(run.result.client_names)
    return f"{what}, {count} {noun(run.result)}{'' if count == 1 else 's'}"


def _listed(methods: Sequence[str]) -> str:
    if len(methods) > _MOST_NAMED:
        return f"{len(methods)} methods"
    *others, last = methods
    return f"{', '.join(others)} and {last}" if others else last


def innermost_name(algorithm: str) -> str:
    """The class of a method as a result writes it, without those of wrappers around it."""
    name, _, inside = algorithm.partition("(")
    return innermost_name(inside.removeprefix("inner=")) if inside.startswith("inner=") else name


def noun(result: Result) -> str:
    """The word for those who hold the data: "site" for files of sites, otherwise "client"."""
    return "site" if "preparation" in result.about else "client"


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
