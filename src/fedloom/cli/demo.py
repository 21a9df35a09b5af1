"""`fedloom demo`: a tour of all families on embedded data, which ends with one report page."""

import argparse
import time
from pathlib import Path
from typing import Any

from fedloom.cli.live import LiveTable
from fedloom.cli.output import show_table
from fedloom.experiments import comparing, tour
from fedloom.experiments.comparing import Comparison
from fedloom.experiments.tour import Stop
from fedloom.measuring.result import Result
from fedloom.pictures.curves import curves
from fedloom.pictures.labels import bytes_text
from fedloom.reports import page


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    folders = []
    for stop in tour.stops():
        print(f"\n{stop.says}")
        folder = arguments.out / stop.name
        comparison = _visit(stop, folder)
        if comparison.interrupted:
            print("interrupted; the same command goes on from here")
            return 130
        show_table([_row(stop, name, runs[0]) for name, runs in comparison.results.items()])
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
            metric=stop.columns[0],
            out=folder,
            watch=table.watch,
            **stop.options,
        )


def _row(stop: Stop, name: str, result: Result) -> dict[str, Any]:
    row = {"method": name} | {column: result.final[column] for column in stop.columns}
    return row | {
        "sent by clients": bytes_text(result.final["bytes_up"]),
        "seconds": result.final["seconds"],
    }
