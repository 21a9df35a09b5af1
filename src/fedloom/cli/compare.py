"""`fedloom compare SETTINGS.toml`: several methods, several seeds, one problem."""

import argparse
import sys
from pathlib import Path
from typing import Any

from fedloom.cli.output import bytes_text, show_json, show_table
from fedloom.cli.run import add_common
from fedloom.engines.result import Result
from fedloom.experiments import comparing, running, settings
from fedloom.experiments.comparing import Comparison
from fedloom.experiments.settings import Settings
from fedloom.reports import fairness, heat
from fedloom.reports.curves import curves


def add(verbs: Any) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("compare", help="compare the methods of a settings file")
    parser.add_argument("settings", metavar="SETTINGS.toml", type=Path)
    add_common(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    chosen = settings.read(arguments.settings, arguments.set)
    out = arguments.out or running.default_folder(chosen)
    return run(chosen, out, arguments.format)


def run(chosen: Settings, out: Path, format: str) -> int:
    """Compare what the settings name; leaves the results and pictures in a folder."""

    def finished(name: str, seed: int, result: Result) -> None:
        comparing.keep(name, result, out)  # at once: a long comparison may be interrupted
        print(f"{name}, seed {seed}: {result.status}", file=sys.stderr)

    options = chosen.run.options()
    first = options.pop("seed")
    comparison = comparing.compare(
        chosen.algorithms,
        chosen.problem,
        chosen.clients(),
        seeds=range(first, first + chosen.compare.seeds),
        metric=chosen.compare.metric,
        finished=finished,
        **options,
    )
    pictures = draw(comparison, chosen, out)
    show(comparison, chosen, format)
    if format != "json":
        print(f"kept in {out}; pictures: {', '.join(pictures)}")
    return 0


def draw(comparison: Comparison, chosen: Settings, out: Path) -> list[str]:
    """The metric against rounds, how each client fares, and the clients' weights if there are."""
    results, title = comparison.results, chosen.compare.title
    metrics = (comparison.metric,)
    curves(results, out / "comparison.png", metrics=metrics, log=chosen.compare.log, title=title)
    pictures = ["comparison.png"]
    if metric := fairness.metric_of_clients(results, comparison.metric):
        fairness.distribution(results, out / "distribution.png", metric=metric, title=title)
        pictures.append("distribution.png")
    if any(map(heat.shows_weights, results.values())):
        heat.weights(results, out / "weights.png", title=title)
        pictures.append("weights.png")
    return pictures


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
