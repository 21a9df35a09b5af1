"""`fedloom reproduce NAME`: an experiment of a paper, from the settings that come with fedloom."""

import argparse
from pathlib import Path

from fedloom.cli import compare
from fedloom.cli.methods_table import FORMATS
from fedloom.cli.output import show_json, show_table
from fedloom.cli.run import add_common, changes
from fedloom.errors import ParameterError, SettingsError
from fedloom.experiments import paper_tables, papers, raw_results, reproduction_table, settings
from fedloom.experiments.papers import Facts
from fedloom.experiments.raw_results import Raw
from fedloom.hints import closest


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="without a name, shows what there is")
    parser.add_argument(
        "--list",
        action="store_true",
        help="show what there is: the paper's table or figure, data, time, and whether it was run",
    )
    parser.add_argument(
        "--raw", type=Path, metavar="FILE", help="write every run as a line of JSON as well"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with what was interrupted in a folder"
    )
    add_common(parser, FORMATS)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    known = papers.available()
    if arguments.name is None or arguments.list:
        rows = papers.listed()
        show_json(rows) if arguments.format == "json" else show_table(rows)
        return 0
    if arguments.name not in known:
        raise ParameterError(
            f"reproduce takes the name of an experiment; got {arguments.name!r}. "
            f"{closest(arguments.name, known)}"
        )
    if arguments.resume is not None and arguments.out is not None:
        raise SettingsError("--resume takes its folder from DIR. Leave out --out.")
    setup = settings.read(known[arguments.name], changes(arguments))
    one = papers.facts(arguments.name)
    papers.check_names(arguments.name, one, setup.algorithms)
    out = arguments.resume or arguments.out or Path("runs") / arguments.name
    comparison = compare.measure(setup, out, resume=arguments.resume is not None)
    if comparison.interrupted:
        print(f"kept in {out}; go on with `fedloom reproduce {arguments.name} --resume {out}`")
        return 130
    pictures = compare.draw(comparison, setup, out)
    raw = raw_results.collect(arguments.name, setup, comparison.results, changes(arguments))
    if arguments.raw is not None:
        raw_results.write(raw, arguments.raw)
    _show(raw, one, setup.compare.target, arguments.format)
    if arguments.format == "table":
        print(f"kept in {out}; pictures: {', '.join(pictures)}")
    return 0


def _show(raw: Raw, one: Facts, target: float | None, format: str) -> None:
    """Print the table, with the paper's numbers beside ours."""
    rows = reproduction_table.rows(raw, one, target)
    made = reproduction_table.cells(rows)
    if format == "json":
        show_json(rows)
    elif format in paper_tables.FORMATS:
        print(paper_tables.formatted(rows, made, format), end="")
    else:
        title = f"{one.shows}. {reproduction_table.caption(raw, one, target)}"
        show_table([{name: cell.text for name, cell in row.items()} for row in made], title=title)
