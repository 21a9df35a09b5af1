"""`fedloom submit`, `fedloom status` and `fedloom fetch`: runs over real sites."""

import argparse
import sys
from datetime import datetime
from pathlib import Path

from fedloom.cli.certificates import warn_of_expiry
from fedloom.cli.output import add_format, show_json, show_table
from fedloom.cli.prepared import show_preparation
from fedloom.cli.run import add_set, show_result
from fedloom.experiments import running, settings
from fedloom.experiments.settings import Settings
from fedloom.federation.job import check_sendable
from fedloom.federation.kits import Kit, check_may_submit, open_kit
from fedloom.federation.people.bringing import bring
from fedloom.federation.people.records import last_run
from fedloom.federation.people.session import connected
from fedloom.federation.people.standing import standings
from fedloom.federation.people.submission import follow
from fedloom.hints import printable
from fedloom.measuring.result import Result
from fedloom.metrics import chosen as metrics_of
from fedloom.simulator.progress import Bar, Lines, Progress


def add_submit(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `submit`."""
    parser.add_argument(
        "settings",
        metavar="SETTINGS.toml",
        type=Path,
        help="the settings file, which every site's policy must allow",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the last run of these settings"
    )
    add_set(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the result")
    _add_kit(parser)
    parser.set_defaults(handle=_submit)


def add_status(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `status`."""
    add_format(parser)
    _add_kit(parser)
    parser.set_defaults(handle=_status)


def add_fetch(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fetch`."""
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the result"
    )
    _add_kit(parser)
    parser.set_defaults(handle=_fetch)


def _add_kit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kit", type=Path, required=True, metavar="KIT", help="your own kit")


def _submit(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "person")
    check_may_submit(kit)
    check_sendable(*settings.unread(arguments.settings, arguments.set))
    chosen = settings.read(arguments.settings, arguments.set)
    out = arguments.out or running.default_folder(chosen)
    warn_of_expiry(kit)
    result = submitted(chosen, kit, out, arguments.resume)
    show_preparation(result)
    show_result(result)
    print(f"kept in {out}")
    return 0


def submitted(chosen: Settings, kit: Kit, out: Path, resume: bool = False) -> Result:
    """Follow a run to its end, with a bar where a person looks on."""
    metric = metrics_of.headline(chosen.metrics, chosen.problem) or ""
    shown = (type(chosen.algorithm).__name__, 0, chosen.run.rounds, metric)
    bar: Progress = Bar(*shown) if sys.stderr.isatty() else Lines(*shown)

    def say(text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    try:
        return follow(kit, chosen, out, resume=resume, bar=bar, say=say)
    except KeyboardInterrupt:
        say("the run goes on at the server; follow it with --resume, or `fedloom fetch` its result")
        raise
    finally:
        bar.close()


def _status(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "person")
    warn_of_expiry(kit)
    with connected(kit) as session:
        sites = [
            {"site": name, "last heard": f"{datetime.fromtimestamp(when):%Y-%m-%d %H:%M:%S}"}
            for name, when in sorted(session.sites().items())
        ]
        jobs = standings(kit, session)
    if arguments.format == "json":
        show_json({"sites": sites, "jobs": jobs})
        return 0
    show_table(sites, title="Connected", columns=("site", "last heard"))
    show_table(jobs, title="Jobs", columns=("run", "job", "state", "round", "why"))
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "person")
    record = last_run(kit)
    with connected(kit) as session:
        result = bring(session, record, record.jobs[-1], arguments.out)
    show_preparation(result)
    show_result(result)
    print(f"kept in {arguments.out}")
    return 0
