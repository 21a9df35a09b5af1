"""`fedloom schema`: the JSON Schema of settings files, for editors and other programs."""

import argparse

from fedloom.cli.output import show_json
from fedloom.experiments.schema import schema


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    show_json(schema())
    return 0
