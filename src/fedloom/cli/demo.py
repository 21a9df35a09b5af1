"""`fedloom demo`: a tour of all families on embedded data, which ends with one report page."""

import argparse
import time
from pathlib import Path

import numpy as np

from fedloom.cli import methods_table
from fedloom.cli.live import LiveTable
from fedloom.cli.methods_table import over_seeds_text
from fedloom.cli.output import show_table
from fedloom.experiments import comparing, tour
from fedloom.experiments.comparing import Comparison
from fedloom.experiments.rows_of_methods import Asked
from fedloom.experiments.tour import Stop
from fedloom.files import writable_folder
from fedloom.pictures.curves import curves
from fedloom.reports import page


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo"),
        metavar="DIR",
        help="folder for what the tour leaves; demo by default",
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    writable_folder(arguments.out)
    folders = []
    for stop in tour.stops():
        print(f"\n{stop.says}")
        folder = arguments.out / stop.name
        comparison = _visit(stop, folder)
        if comparison.interrupted:
            print("interrupted; the same command goes on from here")
            return 130
        _show(stop, comparison)
        curves(
            comparison.results,
            arguments.out / f"{stop.name}.png",
            metrics=stop.columns,
            title=stop.says.partition(":")[0],
        )
        folders.append(folder)
    report = arguments.out / "report.html"
    page.report(folders, report, title="A tour of fedloom")
    print(f"\n{time.perf_counter() - began:.0f} s. Open {report} in a browser; pictures beside it.")
    return 0


def _visit(stop: Stop, folder: Path) -> Comparison:
    """Run the methods of a stop; what an earlier demo has left is not run again."""
    with LiveTable(stop.columns[0], stop.options["rounds"]) as table:
        return comparing.compare(
            stop.methods,
            stop.problem,
            stop.clients,
            seeds=stop.seeds,
            metric=stop.columns[0],
            out=folder,
            watch=table.watch,
            **stop.options,
        )


def _show(stop: Stop, comparison: Comparison) -> None:
    rows = comparison.table(metrics=stop.columns)
    title = over_seeds_text(len(stop.seeds), callable(stop.clients))
    methods_table.show(rows, Asked(stop.columns), comparison.results, "table", title=title)
    if stop.by_client is not None:
        _show_clients(comparison, stop.by_client)


def _show_clients(comparison: Comparison, metric: str) -> None:
    """How each client fares, in the mean over seeds: rows are clients, columns methods."""
    columns = {
        name: np.mean([run.clients[metric].to_numpy() for run in runs], axis=0)
        for name, runs in comparison.results.items()
    }
    names = next(iter(comparison.results.values()))[0].client_names
    rows = [
        {f"{metric} at": client} | {name: float(values[i]) for name, values in columns.items()}
        for i, client in enumerate(names)
    ]
    show_table(rows)
