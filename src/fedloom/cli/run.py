"""`fedloom run SETTINGS.toml`: one method, one problem, one result."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from fedloom.cli import together
from fedloom.cli.output import add_format, bytes_text, show_json, show_table
from fedloom.cli.prepared import show_preparation
from fedloom.cli.trusting import add_trust
from fedloom.errors import SettingsError
from fedloom.experiments import running, settings
from fedloom.experiments.settings import Settings
from fedloom.experiments.tracking import TRACKERS
from fedloom.measuring.result import Result
from fedloom.simulator import hosts

_MOST_ROWS = 12  # of a history on a screen


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_source(parser)
    add_common(parser)
    together.add(parser)
    parser.set_defaults(handle=_handle)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Where the settings come from: a file, or a folder in which something was interrupted."""
    parser.add_argument(
        "settings", metavar="SETTINGS.toml", type=Path, nargs="?", help="the settings file"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="continue what was interrupted in this folder"
    )
    add_trust(parser)


def add_set(parser: argparse.ArgumentParser) -> None:
    """Declare --set, which changes settings of a file."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, as in --set run.rounds=50",
    )


def add_common(parser: argparse.ArgumentParser, formats: Sequence[str] = ("table", "json")) -> None:
    """The options of every verb that runs settings."""
    add_set(parser)
    parser.add_argument(
        "--log",
        action="append",
        choices=TRACKERS,
        help="send every evaluation to a tracker, as `log` of [run] does; may be repeated",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the result")
    add_format(parser, formats)


def chosen(arguments: argparse.Namespace, more: Sequence[str] = ()) -> tuple[Settings, Path]:
    """The settings, with `more` changed, and the folder: new ones, or those of what is resumed."""
    if arguments.resume is not None:
        if arguments.settings is not None or arguments.out is not None:
            raise SettingsError(
                "--resume takes its settings and its folder from DIR. "
                "Leave out SETTINGS.toml and --out."
            )
        changed = [*changes(arguments), *more]
        again = settings.read_again(arguments.resume, changed, arguments.trust)
        return again, arguments.resume
    if arguments.trust:
        raise SettingsError(
            "--trust is for --resume: settings that you run may name any code. Leave it out."
        )
    if arguments.settings is None:
        raise SettingsError("a settings file is needed. Give SETTINGS.toml, or --resume DIR.")
    fresh = settings.read(arguments.settings, [*changes(arguments), *more])
    return fresh, arguments.out or running.default_folder(fresh)


def changes(arguments: argparse.Namespace) -> list[str]:
    """What the command line changes in the settings."""
    log = [f"run.log={json.dumps(arguments.log)}"] if arguments.log else []
    return [*arguments.set, *log]


def _handle(arguments: argparse.Namespace) -> int:
    with together.joined(arguments.hosts) as leads:
        with hosts.all_or_none():
            setup, out = chosen(arguments)
        result = running.run(setup, out, resume=arguments.resume is not None)
    if leads:
        _show(result, out, arguments)
    return 130 if result.status == "interrupted" else 0


def _show(result: Result, out: Path, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        show_json(
            {
                "status": result.status,
                "out": str(out),
                "final": result.final,
                "history": list(result.rows),
                "clients": result.clients.to_dicts(),
            }
        )
    else:
        show_preparation(result)
        show_result(result)
        print(f"kept in {out}")


def show_result(result: Result) -> None:
    """The history in a few columns, and what the communication cost."""
    hidden = {"bytes_up", "bytes_down", "seconds"}
    cut = len(result.rows) > _MOST_ROWS
    rows = [*result.rows[:1], *result.rows[1 - _MOST_ROWS :]] if cut else result.rows
    shown = [
        {name: value for name, value in row.items() if name not in hidden and "10" not in name}
        for row in rows
    ]
    show_table(shown, title=result.about["algorithm"])
    if cut:
        first, last = result.rows[1]["round"], result.rows[-_MOST_ROWS]["round"]
        print(
            f"{len(result.rows) - _MOST_ROWS} evaluations are not shown, of rounds {first} to "
            f"{last}; history.parquet has all"
        )
    final, before = result.final, result.about.get("preparation", {})
    up, down = (before.get(name, 0) for name in ("bytes_up", "bytes_down"))
    print(
        f"{final['seconds']:.2f} s, {bytes_text(final['bytes_down'] + down)} down, "
        f"{bytes_text(final['bytes_up'] + up)} up, in {final['round']} rounds"
        + (f" and the preparation ({bytes_text(down)} down, {bytes_text(up)} up)" if up else "")
    )
