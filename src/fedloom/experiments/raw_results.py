"""Raw results of a reproduction as lines of JSON, from which tables and pictures are made.

The first line says what was run: the command, a digest of the settings, when, for how long and with
which versions. Each other line is a run: its method and seed, how it ended, and its history by
columns, with five digits that count. Where not all runs were made, the first line has `seeds`: how
many there are of each method, 0 of one that was not run.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from fedloom import checksums
from fedloom.data.clients import Clients
from fedloom.errors import DataError
from fedloom.experiments.asking import asked_of
from fedloom.experiments.folder import versions
from fedloom.experiments.settings import Settings
from fedloom.files import write_text
from fedloom.measuring.reference import reference
from fedloom.measuring.result import Result
from fedloom.metrics.ready import metric_of
from fedloom.problems.auc import AUC

COSTS = ("round", "bytes_up", "bytes_down")
_RUN_BY = ("data", "partition", "problem", "algorithm", "wrapper", "run")  # tables that matter
_SEEDS = ("seeds", "redivide")  # and of [compare]


class Run(NamedTuple):
    """A method with a seed."""

    method: str
    seed: int
    status: str
    optimum: float | None  # the metric at the solution of the method's own problem, if it is known
    columns: dict[str, list[float | None]]  # the history; None where something was not measured

    @property
    def rows(self) -> list[dict[str, float]]:
        """The history, a row for each evaluation."""
        rounds = range(len(self.columns["round"]))
        return [
            {name: value for name, c in self.columns.items() if (value := c[i]) is not None}
            for i in rounds
        ]


class Raw(NamedTuple):
    """All that a reproduction left."""

    about: dict[str, Any]
    runs: dict[str, list[Run]]  # by method, one for each seed that was run

    @property
    def metrics(self) -> list[str]:
        """The columns of metrics, the main one first."""
        return list(self.about["metrics"])

    @property
    def larger_is_better(self) -> bool:
        """Whether the main metric should grow."""
        return bool(self.about["larger_is_better"])


def collect(
    name: str,
    setup: Settings,
    results: Mapping[str, Sequence[Result]],
    changes: Sequence[str] = (),
) -> Raw:
    """What the runs of a reproduction left, with these `changes` of its settings."""
    metrics = asked_of(setup).metrics
    runs = [run for group in results.values() for run in group]
    best = optima(setup, metrics[0])
    about = {
        "reproduction": name,
        "command": " ".join(["fedloom reproduce", name, *(f"--set {c}" for c in changes)]),
        "settings": digest(setup),
        "date": date.today().isoformat(),
        "seconds_in_rounds": round(sum(run.final["seconds"] for run in runs)),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": {package: v for package, v in versions().items() if package != "fedloom"},
        "metrics": list(metrics),
        "larger_is_better": any(run.larger_is_better(metrics[0]) for run in runs),
    }
    found = {
        method: [run_of(method, run, best.get(method), metrics) for run in group]
        for method, group in results.items()
    }
    return Raw(about, found)


def run_of(method: str, run: Result, optimum: float | None, metrics: Sequence[str]) -> Run:
    """What is kept of a run."""
    columns: dict[str, list[float | None]] = {
        **{cost: [int(row[cost]) for row in run.rows] for cost in COSTS},
        **{metric: [digits(row.get(metric)) for row in run.rows] for metric in metrics},
    }
    return Run(method, run.about["seed"], run.status, digits(optimum), columns)


def digits(value: float | None) -> float | None:
    """A number as raw results have it."""
    return None if value is None else float(f"{value:.5g}")


def write(raw: Raw, path: Path) -> None:
    """Replace a file of raw results."""
    lines = [raw.about, *(run._asdict() for group in raw.runs.values() for run in group)]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n"
    write_text(path, text, shared=True)


def read(path: Path) -> Raw:
    """Read a file of raw results."""
    try:
        about, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        runs = [Run(**line) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{path}: is no file of raw results: {error}. Write it with `fedloom reproduce NAME "
            f"--raw FILE`."
        ) from error
    found: dict[str, list[Run]] = {method: [] for method in about.get("seeds", ())}
    for run in runs:
        found.setdefault(run.method, []).append(run)
    return Raw(about, found)


def digest(setup: Settings) -> str:
    """A digest of the settings that decide what comes out, and not of what is shown of it."""
    tables = {name: setup.tables.get(name) for name in _RUN_BY}
    seeds = {name: getattr(setup.compare, name) for name in _SEEDS}
    text = json.dumps({**tables, "compare": seeds}, sort_keys=True)
    return checksums.digest(text.encode())[:16]


def optima(setup: Settings, metric: str) -> dict[str, float]:
    """By method, the test AUC at the solution of the saddle problem that it solves."""
    if not isinstance(setup.problem, AUC) or metric != "auc" or setup.compare.redivide:
        return {}
    clients = setup.clients()
    if not isinstance(clients, Clients):
        return {}
    rows = clients.train if clients.test is None else clients.test
    score = metric_of("auc", setup.problem).function
    by_dual = {
        dual: float(score(setup.problem.scores(found.model, rows.x), rows.y))
        for dual in {method.dual for method in setup.algorithms.values()}
        for found in [reference(setup.problem, clients, dual=dual)]
    }
    return {name: by_dual[method.dual] for name, method in setup.algorithms.items()}
