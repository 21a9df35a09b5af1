"""`fedloom provision PROJECT.toml`: a kit for the server, each site and each person."""

import argparse
from pathlib import Path

from fedloom.cli.output import show_table
from fedloom.federation.kits import SUBMITTERS, Kit
from fedloom.federation.provisioning import AUTHORITY, provision, read_project
from fedloom.hints import needs


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "project",
        metavar="PROJECT.toml",
        type=Path,
        help="the settings of the federation, as `fedloom new federation` writes them",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("kits"),
        metavar="DIR",
        help="folder for the kits; kits by default",
    )
    parser.add_argument(
        "--renew", action="store_true", help="renew the certificates of existing kits"
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    needs("cryptography", "federate")
    from fedloom.federation.expiry import valid_until

    kits = provision(read_project(arguments.project), arguments.out, renew=arguments.renew)
    commands = {"server": "fedloom serve", "site": "fedloom join", "person": "fedloom status"}
    show_table(
        [
            {
                "kit": str(kit.path),
                "for": kit.name,
                "command": "fedloom submit" if _submits(kit) else commands[kit.role],
                "valid until": f"{valid_until(kit):%Y-%m-%d}",
            }
            for kit in kits
        ],
        columns=("kit", "for", "command", "valid until"),
    )
    if arguments.renew:
        print(
            "Owners copy startup/*.crt and startup/rootCA.pem into their kits, keep all else, and "
            "start anew."
        )
    print(
        f"Give each kit to its owner by a safe way; keep {arguments.out / AUTHORITY} to yourself."
    )
    return 0


def _submits(kit: Kit) -> bool:
    return kit.role == "person" and kit.may in SUBMITTERS
