"""`fedloom doctor`: is this installation whole, and are its numbers right?"""

import argparse
import sys

from rich.console import Console

from fedloom.cli.output import add_format, show_json, show_table
from fedloom.doctor import Finding, examine, solve_on_every_device
from fedloom.doctor.finding import NOTE, RIGHT, WRONG

_MARKS = {RIGHT: "✓", NOTE: "·", WRONG: "✗"}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Exit status 1 if something is wrong. Add the table to a bug report."
    add_format(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    with Console(stderr=True).status("looking around") as status:
        findings = [*examine(), *solve_on_every_device(lambda text: status.update(text))]
    wrong = [finding for finding in findings if finding.verdict == WRONG]
    if arguments.format == "json":
        show_json([finding._asdict() for finding in findings])
    else:
        show_table(map(_row, findings))
        count = f"{len(wrong)} of {len(findings)} checks failed" if wrong else "all is well"
        print(count, file=sys.stderr)
    return 1 if wrong else 0


def _row(finding: Finding) -> dict[str, str]:
    return {
        "": _MARKS[finding.verdict],
        "section": finding.section,
        "what": finding.name,
        "found": finding.found,
        "advice": finding.advice,
    }
