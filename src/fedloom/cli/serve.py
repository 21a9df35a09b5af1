"""`fedloom serve KIT` and `fedloom join KIT --data FILE`: the two ends of a federation."""

import argparse
import signal
import time
from pathlib import Path
from typing import Any

from fedloom.engines.flare.kits import Kit, open_kit
from fedloom.engines.flare.policy_file import read_policy, set_data
from fedloom.engines.flare.processes import CONSOLE, start, stop
from fedloom.errors import FederationError, MissingDataError


def add(verbs: Any) -> None:
    """Declare both verbs."""
    serve = verbs.add_parser("serve", help="run the server of a federation")
    serve.add_argument("kit", metavar="KIT", type=Path)
    serve.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="ids and labels, where the server's owner has them",
    )
    serve.set_defaults(handle=_serve)
    join = verbs.add_parser("join", help="take part in a federation with one's own data")
    join.add_argument("kit", metavar="KIT", type=Path)
    join.add_argument("--data", type=Path, metavar="FILE", help="this site's rows")
    join.add_argument("--test", type=Path, metavar="FILE", help="rows to take metrics on")
    join.set_defaults(handle=_join)


def _serve(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "server")
    _note_data(kit, arguments.data, None)
    return _run(kit, f"serving {kit.project}")


def _join(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "site")
    _note_data(kit, arguments.data, arguments.test)
    policy = read_policy(kit.path)
    if policy.data is None:
        raise FederationError(f"{kit.name} has no data yet. Give --data FILE.")
    allowed = f"methods {', '.join(policy.methods) or 'none'}"
    return _run(kit, f"{kit.name} takes part in {kit.project} with {policy.data}; {allowed}")


def _note_data(kit: Kit, data: Path | None, test: Path | None) -> None:
    for path in (data, test):
        if path is not None and not path.exists():
            raise MissingDataError(f"{path}: there is no such file. Check the path.")
    if data is not None:
        set_data(kit.path, data.resolve(), None if test is None else test.resolve())


def _run(kit: Kit, title: str) -> int:
    """Run a kit's process in the foreground, until it ends or is asked to."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)
    process = start(kit)
    print(f"{title}; log in {kit.path / CONSOLE}; Ctrl-C ends it", flush=True)
    try:
        while process.poll() is None:
            time.sleep(0.2)
        raise FederationError(
            f"the process of {kit.name} ended by itself with status {process.returncode}. "
            f"{kit.path / CONSOLE} says why."
        )
    except KeyboardInterrupt:
        return 0
    finally:
        stop(kit)
