"""`fedloom budget KIT`: how much a site's replies have disclosed, and what its budget has left."""

import argparse
from pathlib import Path

from fedloom.cli.output import add_format, show_json, show_table
from fedloom.federation.kits import open_kit
from fedloom.federation.policy import POLICY
from fedloom.federation.policy_file import read_policy
from fedloom.federation.site.budget import Budget


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("kit", metavar="KIT", type=Path, help="the kit of your site")
    add_format(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    kit = open_kit(arguments.kit, "site")
    policy = read_policy(kit.path)
    rows = Budget(kit.path, policy).rows()
    if arguments.format == "json":
        show_json({"budget": policy.epsilon, "delta": policy.delta, "runs": rows})
        return 0
    show_table(rows)
    limit = "no budget is set" if policy.epsilon is None else f"the budget is {policy.epsilon:g}"
    print(f"epsilon at delta {policy.delta:g}; {limit} ({POLICY})")
    return 0
