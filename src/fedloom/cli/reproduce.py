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
from fedloom.experiments.settings import Settings
from fedloom.files import writable_file, writable_folder
from fedloom.hints import closest

_STATES = {
    "run": "Run here: {}; raw results are in docs/reproductions/raw",
    "run in part": "Run here in part: {}; the time is of the whole",
    "not run": "Not run here: {}",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="the experiment; without it, list all")
    parser.add_argument(
        "--list",
        action="store_true",
        help="list all: the paper's table or figure, data, time, and whether it was run here",
    )
    parser.add_argument(
        "--raw", type=Path, metavar="FILE", help="write every run as a line of JSON as well"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="continue what was interrupted in this folder"
    )
    add_common(parser, FORMATS)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    known = papers.available()
    if arguments.list or _asks_for_nothing(arguments):
        show_json(papers.listed()) if arguments.format == "json" else _show_all()
        return 0
    if arguments.name not in known:
        raise ParameterError(
            f"reproduce takes the name of an experiment; got {arguments.name!r}. "
            f"{closest(arguments.name or '', known, where='fedloom reproduce --list')}"
        )
    if arguments.raw is not None:
        writable_file(arguments.raw)
    if arguments.out is not None:
        writable_folder(arguments.out)
    setup = _settings(arguments, known[arguments.name])
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


def _asks_for_nothing(arguments: argparse.Namespace) -> bool:
    return arguments.name is None and arguments.resume is None and arguments.raw is None


def _show_all() -> None:
    """A table of what was run here, and one of what was not."""
    listed = {row["name"]: row["state"] for row in papers.listed()}
    for state, title in _STATES.items():
        known = [(name, papers.facts(name)) for name, its in listed.items() if its == state]
        show_table(
            [
                {
                    "name": name,
                    "time": papers.took(one, machine=False),
                    "repeats": one.shows,
                    "data": one.data,
                }
                for name, one in known
            ],
            title=title.format(len(known)),
        )
    print("times are those of one or two cores of a CPU, about, or of the GPU that is named")
    print(
        "slopes, and the head of a network over parties, are studies of their own: in a clone, "
        "python -m benchmarks.slopes --help"
    )


def _settings(arguments: argparse.Namespace, file: Path) -> Settings:
    """Those that come with fedloom, or those of what was begun in a folder."""
    if arguments.resume is None:
        return settings.read(file, changes(arguments))
    if arguments.out is not None:
        raise SettingsError("--resume takes its folder from DIR. Leave out --out.")
    begun = settings.read_again(arguments.resume, changes(arguments))
    ours = settings.read(file, changes(arguments))
    same = begun.tables["data"].get("name") == ours.tables["data"].get("name")
    if not same or list(begun.algorithms) != list(ours.algorithms):
        raise SettingsError(
            f"--resume: {arguments.resume} holds another experiment than {arguments.name}. Go on "
            f"with it by its own name, or with `fedloom compare --resume`."
        )
    return ours if ours.resolved() == begun.resolved() else begun


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
