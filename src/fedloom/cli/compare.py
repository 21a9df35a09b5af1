"""`fedloom compare SETTINGS.toml`: several methods, several seeds, one problem."""

import argparse
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fedloom.cli.output import bytes_text, show_json, show_table
from fedloom.cli.run import add_common, read
from fedloom.engines.result import Result
from fedloom.experiments import comparing, running
from fedloom.experiments.comparing import Comparison, Watch
from fedloom.experiments.settings import Settings
from fedloom.experiments.tracking import tracking
from fedloom.files import write_text
from fedloom.reports.curves import curves


def add(verbs: Any) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("compare", help="compare the methods of a settings file")
    parser.add_argument("settings", metavar="SETTINGS.toml", type=Path)
    add_common(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    chosen = read(arguments, arguments.settings)
    out = arguments.out or running.default_folder(chosen)
    return run(chosen, out, arguments.format)


def run(chosen: Settings, out: Path, format: str) -> int:
    """Compare what the settings name; leaves the results and a picture in a folder."""

    def finished(name: str, seed: int, result: Result) -> None:
        print(f"{name}, seed {seed}: {result.status}", file=sys.stderr)

    def watching(name: str, seed: int) -> AbstractContextManager[Watch | None]:
        facts = {"algorithm": chosen.algorithms[name], "problem": chosen.problem, "seed": seed}
        return tracking(chosen.run.log, out, f"{out.name}/{name}/seed-{seed}", facts)

    options = chosen.run.options()
    first = options.pop("seed")
    comparison = comparing.compare(
        chosen.algorithms,
        chosen.problem,
        chosen.clients(),
        seeds=range(first, first + chosen.compare.seeds),
        metric=chosen.compare.metric,
        finished=finished,
        watching=watching,
        **options,
    )
    comparing.keep(comparison, out)
    write_text(out / "settings.toml", chosen.place.text)
    picture = out / "comparison.png"
    curves(
        comparison.results,
        picture,
        metrics=(comparison.metric,),
        log=chosen.compare.log,
        title=chosen.compare.title,
    )
    show(comparison, chosen, format)
    if format != "json":
        print(f"kept in {out}; picture: {picture}")
    return 0


def show(comparison: Comparison, chosen: Settings, format: str) -> None:
    """The table, for people or for programs."""
    rows = comparison.table(chosen.compare.target)
    if format == "json":
        show_json(rows)
        return
    for row in rows:
        for column in ("bytes up", "bytes down", "bytes to target"):
            if row.get(column) is not None:
                row[column] = bytes_text(row[column])
    seeds = chosen.compare.seeds
    show_table(rows, title=f"After {chosen.run.rounds} rounds, {seeds} seed{'s' * (seeds > 1)}")
