"""The option by which a user lets code be executed that the folder of a run names."""

import argparse


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Declare --trust."""
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="FILE.py",
        help="execute this file, or module, which the folder names, although you have not run its "
        "settings on this machine; may be repeated",
    )
