"""`fedloom serve KIT` and `fedloom join KIT --data FILE`: the two ends of a federation."""

import argparse
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from fedloom.cli.certificates import warn_of_expiry
from fedloom.errors import FederationError, MissingDataError
from fedloom.federation.kits import Kit, open_kit
from fedloom.federation.locks import held
from fedloom.federation.policy_file import read_policy, set_data
from fedloom.federation.processes import (
    CONSOLE,
    await_listening,
    await_registered,
    check_alive,
    log_size,
    start,
    stop,
)
from fedloom.federation.reaching import address, await_server

Process = subprocess.Popen[bytes]
WAIT_SECONDS = 300.0  # for a server that is not there yet


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `serve`."""
    parser.add_argument("kit", metavar="KIT", type=Path, help="the kit of the server")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="the file with ids and labels, if this server's owner is the label party",
    )
    parser.set_defaults(handle=_serve)


def add_join(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `join`."""
    parser.add_argument("kit", metavar="KIT", type=Path, help="the kit of your site")
    parser.add_argument("--data", type=Path, metavar="FILE", help="this site's rows")
    parser.add_argument("--test", type=Path, metavar="FILE", help="rows to take metrics on")
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"how long to wait for the server to be there (default {WAIT_SECONDS:g})",
    )
    parser.set_defaults(handle=_join)


def _serve(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "server")

    def begin() -> Process:
        _note_data(kit, arguments.data, None)
        process = start(kit)
        await_listening(kit, process)
        _say(kit, f"serving {kit.project} at port {address(kit)[1]}")
        return process

    return _run(kit, begin)


def _join(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "site")

    def begin() -> Process:
        _note_data(kit, arguments.data, arguments.test)
        policy = read_policy(kit.path)
        if policy.data is None:
            raise FederationError(f"{kit.name} has no data yet. Give --data FILE.")
        await_server(kit, arguments.wait, lambda text: print(text, flush=True))
        written = log_size(kit)
        process = start(kit)
        await_registered(kit, process, written)
        allowed = f"methods {', '.join(policy.methods) or 'none'}"
        _say(kit, f"{kit.name} takes part in {kit.project} with {policy.data}; {allowed}")
        return process

    return _run(kit, begin)


def _note_data(kit: Kit, data: Path | None, test: Path | None) -> None:
    for path in (data, test):
        if path is not None and not path.exists():
            raise MissingDataError(f"{path}: there is no such file. Check the path.")
    if data is not None:
        set_data(kit.path, data.resolve(), None if test is None else test.resolve())


def _say(kit: Kit, title: str) -> None:
    print(f"{title}; log in {kit.path / CONSOLE}; Ctrl-C ends it", flush=True)


def _run(kit: Kit, begin: Callable[[], Process]) -> int:
    """Run a kit's process in the foreground, until it ends or is asked to."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    warn_of_expiry(kit)
    with held(kit):
        signal.signal(signal.SIGTERM, leave)
        stop(kit)  # what a command that was killed has left; nobody holds the kit any more
        try:
            process = begin()
            while True:
                check_alive(kit, process)
                time.sleep(0.2)
        except KeyboardInterrupt:
            return 0
        finally:
            stop(kit)
