"""`fedloom schema`: the JSON Schema of settings files, for editors and other programs."""

import argparse
from typing import Any

from fedloom.cli.output import show_json
from fedloom.experiments.schema import schema


def add(verbs: Any) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("schema", help="print the JSON Schema of settings files")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    show_json(schema())
    return 0
