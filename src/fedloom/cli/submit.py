"""`fedloom submit`, `fedloom status` and `fedloom fetch`: runs over real sites."""

import argparse
import sys
from datetime import datetime
from pathlib import Path

from fedloom import directions
from fedloom.cli.certificates import warn_of_expiry
from fedloom.cli.output import show_json, show_table
from fedloom.cli.prepared import show_preparation
from fedloom.cli.run import show_result
from fedloom.experiments import running, settings
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.settings import Settings
from fedloom.experiments.written import runnable
from fedloom.federation.kits import Kit, open_kit
from fedloom.federation.people.session import connected
from fedloom.federation.people.submission import follow, last_run
from fedloom.measuring.result import Result
from fedloom.simulator.progress import progress_for


def add_submit(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `submit`."""
    parser.add_argument("settings", metavar="SETTINGS.toml", type=Path)
    parser.add_argument("--resume", action="store_true", help="go on with the last run of it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the result")
    _add_kit(parser)
    parser.set_defaults(handle=_submit)


def add_status(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `status`."""
    parser.add_argument("--format", choices=("table", "json"), default="table")
    _add_kit(parser)
    parser.set_defaults(handle=_status)


def add_fetch(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fetch`."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    _add_kit(parser)
    parser.set_defaults(handle=_fetch)


def _add_kit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kit", type=Path, required=True, metavar="KIT", help="your own kit")


def _submit(arguments: argparse.Namespace) -> int:
    chosen = settings.read(arguments.settings, arguments.set)
    out = arguments.out or running.default_folder(chosen)
    kit = open_kit(arguments.kit, "person")
    warn_of_expiry(kit)
    result = submitted(chosen, kit, out, arguments.resume)
    show_preparation(result)
    show_result(result)
    print(f"kept in {out}")
    return 0


def submitted(chosen: Settings, kit: Kit, out: Path, resume: bool = False) -> Result:
    """Follow a run to its end, with a bar where a person looks on."""
    bar = progress_for(
        None,
        type(chosen.algorithm).__name__,
        done=0,
        total=chosen.run.rounds,
        metric=directions.headline(chosen.metrics, chosen.problem) or "",
    )

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    try:
        result = follow(kit, chosen, out, resume=resume, bar=bar, say=say)
    except KeyboardInterrupt:
        say("the run goes on at the server; follow it with --resume, or `fedloom fetch` its result")
        raise
    finally:
        bar.close()
    resolved = chosen.resolved()
    folder = RunFolder(out, {"settings": resolved})
    folder.write_settings(runnable(chosen), resolved)
    folder.finish(result)
    return result


def _status(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "person")
    warn_of_expiry(kit)
    with connected(kit) as session:
        sites = [
            {"site": name, "last heard": f"{datetime.fromtimestamp(when):%Y-%m-%d %H:%M:%S}"}
            for name, when in sorted(session.sites().items())
        ]
        jobs = [
            {"run": job.get("name"), "job": str(job.get("job_id")), "state": job.get("status")}
            for job in session.jobs()
        ]
        for job in jobs:
            told = session.status(str(job["job"])) if job["state"] == "RUNNING" else None
            job["round"] = None if told is None else f"{told['round']} of {told['rounds']}"
    if arguments.format == "json":
        show_json({"sites": sites, "jobs": jobs})
        return 0
    show_table(sites, title="Connected", columns=("site", "last heard"))
    show_table(jobs, title="Jobs", columns=("run", "job", "state", "round"))
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "person")
    record = last_run(kit)
    with connected(kit) as session:
        result = session.fetch(record.jobs[-1], arguments.out)
    show_result(result)
    print(f"kept in {arguments.out}")
    return 0
