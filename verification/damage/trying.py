"""Damage files one at a time, and look at what their reader does."""

import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedloom.errors import FedloomError
from verification.damage.mutations import KINDS
from verification.damage.subjects import Subject

REFUSED, ACCEPTED = "refused", "accepted"  # as it should be
RAW, SILENT, NAMELESS = "raw", "silent", "nameless"  # and as it should not
FAULTS = (RAW, SILENT, NAMELESS)


class Case(NamedTuple):
    """One damaged file, and what came of it."""

    subject: str
    number: int
    kind: str
    file: str
    outcome: str
    said: str

    def __str__(self) -> str:
        return f"{self.subject} {self.number}, {self.file} {self.kind}: {self.outcome}, {self.said}"


def try_all(subject: Subject, count: int, seed: int, folder: Path) -> Iterator[Case]:
    """Make good files of a kind, then damage and read them so many times."""
    folder.mkdir(parents=True)
    subject.make(folder)
    subject.read(folder)  # whole files are taken
    patterns = (*subject.sealed, *subject.plain)
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    sealed = {file for pattern in subject.sealed for file in folder.glob(pattern)}
    good = {file: file.read_bytes() for file in files}
    for number in range(count):
        rng = np.random.default_rng([seed, zlib.crc32(subject.name.encode()), number])
        file = files[rng.integers(len(files))]
        kind, changed = _damaged(rng, file, good)
        if changed == good[file]:
            continue
        file.write_bytes(changed)
        outcome, said = _read(subject, folder, file, file in sealed)
        yield Case(subject.name, number, kind, str(file.relative_to(folder)), outcome, said)
        file.write_bytes(good[file])


def _damaged(rng: np.random.Generator, file: Path, good: dict[Path, bytes]) -> tuple[str, bytes]:
    """What happens to a file: something by itself, or it is taken for one beside it."""
    beside = [other for other in good if other != file and other.suffix == file.suffix]
    choice = int(rng.integers(len(KINDS) + bool(beside)))
    if choice == len(KINDS):
        return "swapped", good[beside[rng.integers(len(beside))]]
    kind = KINDS[choice]
    return kind.__name__, kind(rng, good[file])


def _read(subject: Subject, folder: Path, file: Path, sealed: bool) -> tuple[str, str]:
    try:
        subject.read(folder)
    except FedloomError as error:
        named = file.name in str(error) or str(file.parent) in str(error)
        return (REFUSED if named else NAMELESS), f"{type(error).__name__}: {error}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Polars is no Exception
        return RAW, f"{type(error).__name__}: {error}"
    return (SILENT if sealed else ACCEPTED), "taken"


def table(cases: list[Case]) -> str:
    """One line for each kind of file, and what happened to how many."""
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        counts.setdefault(case.subject, Counter())[case.outcome] += 1
    columns = (REFUSED, ACCEPTED, *FAULTS)
    lines = [f"{'files':10}" + "".join(f"{name:>10}" for name in ("cases", *columns))]
    for name, found in counts.items():
        numbers = (found.total(), *(found[column] for column in columns))
        lines.append(f"{name:10}" + "".join(f"{number:10}" for number in numbers))
    return "\n".join(lines)
