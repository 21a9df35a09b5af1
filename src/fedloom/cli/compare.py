"""`fedloom compare SETTINGS.toml`: several methods, several seeds, one problem."""

import argparse
from pathlib import Path

from fedloom.cli.elsewhere import add_workers, goes_on, workers
from fedloom.cli.live import LiveTable
from fedloom.cli.methods_table import FORMATS, add_columns, columns_asked, over_seeds_text, show
from fedloom.cli.prepared import show_preparation
from fedloom.cli.run import add_common, add_source, chosen
from fedloom.experiments import comparing, rows_of_methods, running
from fedloom.experiments.asking import asked_of
from fedloom.experiments.comparing import Comparison
from fedloom.experiments.settings import Settings
from fedloom.experiments.tracking import Tracking, tracking
from fedloom.experiments.workers import Workers
from fedloom.files import folder_name
from fedloom.pictures.curves import curves
from fedloom.reports import fairness, heat


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_source(parser)
    add_common(parser, FORMATS)
    add_columns(parser)
    add_workers(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    setup, out = chosen(arguments, columns_asked(arguments))
    resume = goes_on(arguments, setup, out)
    with workers(arguments, setup, out, asked_of(setup).metrics[0]) as others:
        return run(setup, out, arguments.format, resume=resume, others=others)


def run(
    setup: Settings, out: Path, format: str, *, resume: bool = False, others: Workers | None = None
) -> int:
    """Compare what the settings name; leaves the results and pictures in a folder."""
    asked = asked_of(setup)
    comparison = measure(setup, out, resume=resume, others=others)
    if comparison.interrupted:
        print(f"kept in {out}; go on with `fedloom compare --resume {out}`")
        return 130
    pictures = draw(comparison, setup, out)
    rows, seeds = rows_of_methods.table(comparison.results, asked), setup.compare.seeds
    title = f"After {setup.run.rounds} rounds, {over_seeds_text(seeds, setup.compare.redivide)}"
    if format == "table":
        show_preparation(next(iter(comparison.results.values()))[0], fares=False)
    show(rows, asked, comparison.results, format, title=title)
    if format == "table":
        print(f"kept in {out}; pictures: {', '.join(pictures)}")
    return 0


def measure(
    setup: Settings, out: Path, *, resume: bool = False, others: Workers | None = None
) -> Comparison:
    """Run all methods with all seeds, or what is left of them: here with a live table, or there."""
    options = setup.options()
    clients = setup.clients_of if setup.compare.redivide else setup.clients()
    first = options.pop("seed")

    def tracked(name: str, seed: int) -> Tracking:
        facts = {"algorithm": setup.algorithms[name], "problem": setup.problem, "seed": seed}
        return tracking(setup.run.log, out, f"{out.name}/{folder_name(name)}/seed-{seed}", facts)

    metric = asked_of(setup).metrics[0]
    with (
        running.run_folder(setup, out, resume=resume) as folder,
        LiveTable(metric, setup.run.rounds) as table,
    ):
        how = {"executor": others} if others else {"watch": table.watch, "tracked": tracked}
        return comparing.compare(
            setup.algorithms,
            setup.problem,
            clients,
            seeds=range(first, first + setup.compare.seeds),
            metric=metric,
            out=out,
            notes=folder.notes,
            **how,
            **options,
        )


def draw(comparison: Comparison, setup: Settings, out: Path) -> list[str]:
    """The metric against its cost, how each client fares, and the clients' weights if there are."""
    results, title = comparison.results, setup.compare.title
    how, metrics = setup.compare, (comparison.metric,)
    path = out / "comparison.png"
    curves(results, path, metrics=metrics, against=how.against, log=how.log, title=title)
    pictures = ["comparison.png"]
    if metric := fairness.metric_of_clients(results, comparison.metric):
        fairness.distribution(results, out / "distribution.png", metric=metric, title=title)
        pictures.append("distribution.png")
    if any(map(heat.shows_weights, results.values())):
        heat.weights(results, out / "weights.png", title=title)
        pictures.append("weights.png")
    return pictures
