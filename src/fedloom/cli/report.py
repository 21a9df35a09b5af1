"""`fedloom report DIR...`: a page about runs and comparisons that opens anywhere."""

import argparse
from pathlib import Path

from fedloom.files import write_text
from fedloom.reports.page import render
from fedloom.reports.pictures import draw
from fedloom.reports.reading import read


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        type=Path,
        help="what `fedloom run`, `fedloom compare` or Result.save wrote",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="where the page goes")
    parser.add_argument("--title", default="", help="what stands at the top")
    parser.add_argument(
        "--pictures", type=Path, metavar="DIR", help="also draw PNG and SVG pictures for a paper"
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    studies = read(arguments.folders)
    alone = len(arguments.folders) == 1
    out = arguments.out or (arguments.folders[0] if alone else Path()) / "report.html"
    write_text(out, render(studies, title=arguments.title), shared=True)
    print(f"report: {out}")
    if arguments.pictures:
        for path in draw(studies, arguments.pictures):
            print(f"picture: {path}")
    return 0
