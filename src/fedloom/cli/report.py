"""`fedloom report DIR...`: a page about runs and comparisons that opens anywhere."""

import argparse
from pathlib import Path

from fedloom.cli.methods_table import FORMATS, add_columns, over_seeds_text, show
from fedloom.errors import ParameterError
from fedloom.experiments import rows_of_methods
from fedloom.files import writable_file, writable_folder, write_text
from fedloom.hints import closest
from fedloom.parameters import between, check
from fedloom.reports.page import render
from fedloom.reports.pictures import draw
from fedloom.reports.reading import Study, read


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        type=Path,
        help="a folder that `fedloom run`, `fedloom compare` or Result.save wrote",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page to write")
    parser.add_argument("--title", default="", help="the title of the page")
    parser.add_argument(
        "--pictures", type=Path, metavar="DIR", help="also draw PNG and SVG pictures for a paper"
    )
    parser.add_argument(
        "--format",
        choices=("page", *FORMATS),
        default="page",
        help="print the table of methods instead of writing a page",
    )
    add_columns(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    studies = [_asked(study, arguments) for study in read(arguments.folders)]
    if arguments.format != "page":
        return _print(studies, arguments.format)
    alone = len(arguments.folders) == 1
    out = arguments.out or (arguments.folders[0] if alone else Path()) / "report.html"
    writable_file(out)
    if arguments.pictures:
        writable_folder(arguments.pictures)
    write_text(out, render(studies, title=arguments.title), shared=True)
    print(f"report: {out}")
    if arguments.pictures:
        for path in draw(studies, arguments.pictures):
            print(f"picture: {path}")
    return 0


def _asked(study: Study, arguments: argparse.Namespace) -> Study:
    """A study with what the command line asks of its tables."""
    asked = study.asked
    if arguments.metrics is not None:
        asked = asked._replace(metrics=tuple(n.strip() for n in arguments.metrics.split(",")))
    for name in asked.metrics:
        if name not in study.columns:
            raise ParameterError(
                f"--metrics must be columns of the history; got {name!r}. "
                f"{closest(name, study.columns)}"
            )
    if arguments.interval is not None:
        check("report", "--interval", arguments.interval, between(0, 1))
        asked = asked._replace(interval=arguments.interval)
    if arguments.paired is not None:
        asked = asked._replace(paired=arguments.paired)
    if asked.paired is not None and asked.paired not in study.methods:
        raise ParameterError(
            f"--paired must name one of the methods; got {asked.paired!r}. "
            f"{closest(asked.paired, study.methods)}"
        )
    return study._replace(asked=asked)


def _print(studies: list[Study], format: str) -> int:
    """The table of methods of each study."""
    for study in studies:
        rows = rows_of_methods.table(study.methods, study.asked)
        seeds = over_seeds_text(max(len(runs) for runs in study.methods.values()), study.redivided)
        show(rows, study.asked, study.methods, format, title=f"{study.title}, {seeds}")
    return 0
