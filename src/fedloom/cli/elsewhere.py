"""The options by which other processes or a cluster do the runs of a comparison or a sweep."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedloom.checksums import read_json
from fedloom.cli.local_pool import LocalPool
from fedloom.cli.slurm import Slurm
from fedloom.errors import SettingsError
from fedloom.experiments.options import ONLY_SHOWN
from fedloom.experiments.orders import from_settings
from fedloom.experiments.settings import Settings
from fedloom.experiments.workers import Task, Told, Workers
from fedloom.files import JOBS, inside
from fedloom.measuring.result import Result


def add_workers(parser: argparse.ArgumentParser) -> None:
    """The options that say so."""
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="do the runs in N processes of this machine, each with its share of the cores",
    )
    one.add_argument(
        "--slurm",
        metavar="KEY=VALUE,...",
        help="submit the runs to Slurm, with options of sbatch such as "
        "partition=gpu,gpus=1,time=120 (minutes)",
    )


@contextlib.contextmanager
def workers(
    arguments: argparse.Namespace, setup: Settings, out: Path, metric: str
) -> Iterator[Workers | None]:
    """Those that the command line asks for; None: this process."""
    count, words = arguments.workers, arguments.slurm
    if count is None and words is None:
        yield None
        return
    if count is not None and count < 1:
        raise SettingsError(f"--workers must be a whole number >= 1; got {count}. Try --workers 2.")
    with LocalPool(count) if words is None else Slurm(inside(out, JOBS), words) as executor:
        yield Workers(executor, from_settings(setup), _lines(metric))


def goes_on(arguments: argparse.Namespace, setup: Settings, out: Path) -> bool:
    """Whether the folder holds a part of the same work: --resume, or the same command again."""
    if arguments.resume is not None:
        return True
    asked = arguments.workers is not None or arguments.slurm is not None
    if not asked or not (out / "settings.json").exists():
        return False
    kept, asked = read_json(inside(out, "settings.json")), json.loads(json.dumps(setup.resolved()))
    shown = {f"compare.{name}" for name in ONLY_SHOWN}
    if others := [name for name in _different(kept, asked) if name not in shown]:
        raise SettingsError(
            f"{out} holds runs whose settings differ in {', '.join(others)}. Choose another "
            f"--out, or go on with those: --resume {out}."
        )
    return True


def _different(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The settings that are not the same in two files, as `run.rounds`."""
    found = []
    for name in sorted(one.keys() | other.keys()):
        before, now = one.get(name), other.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            found += [f"{name}.{inner}" for inner in _different(before, now)]
        elif before != now:
            found.append(name)
    return found


def _lines(metric: str) -> Told:
    """A line of text for each run that has ended."""

    def say(task: Task, result: Result, count: str) -> None:
        value = result.final.get(metric)
        shown = "" if value is None else f", {metric} {value:.4g}"
        status = "" if result.status == "done" else f" ({result.status})"
        line = f"{count}: {task.name}: round {result.final['round']}{shown}{status}"
        print(line, file=sys.stderr, flush=True)

    return say
