"""Options that several commands have, with one meaning and one help."""

import argparse
from collections.abc import Sequence


def add_set(parser: argparse.ArgumentParser) -> None:
    """Declare --set, which changes settings of a file."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, as in --set run.rounds=50",
    )


def add_format(parser: argparse.ArgumentParser, choices: Sequence[str] = ("table", "json")) -> None:
    """Declare --format: the first choice is for people, and those after JSON are for papers."""
    papers = ", others for papers" if len(choices) > 2 else ""
    parser.add_argument(
        "--format",
        choices=choices,
        default=choices[0],
        help=f"{choices[0]} for people, json for programs{papers}",
    )
