"""`fedloom completion SHELL`: a script by which a shell completes verbs, options and keys."""

import argparse
import sys
from pathlib import Path

import shtab

from fedloom.cli import listing, main, tables
from fedloom.experiments.registries import ALGORITHMS, ALL, DATASETS

_HOW = {
    "bash": "fedloom completion bash > ~/.local/share/bash-completion/completions/fedloom",
    "zsh": "fedloom completion zsh > ~/.zfunc/_fedloom  # a folder that is in fpath",
    "fish": "fedloom completion fish > ~/.config/fish/completions/fedloom.fish",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "; ".join(_HOW.values())
    parser.add_argument(
        "shell",
        choices=tuple(shtab.SUPPORTED_SHELLS),
        help="the shell that is to complete commands",
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    whole = main.parser((), every=True)
    _with_names(whole)
    print(shtab.complete(whole, shell=arguments.shell))
    if arguments.shell in _HOW and sys.stdout.isatty():
        print(f"# {_HOW[arguments.shell]}", file=sys.stderr)
    return 0


def _with_names(parser: argparse.ArgumentParser) -> None:
    """Give arguments that are a path or a key of a list what a shell may propose."""
    keys = {
        ("list", "what"): tuple(listing.LISTS),
        ("explain", "key"): tuple(dict.fromkeys([*tables.TABLES, *(k for r in ALL for k in r)])),
        ("check", "method"): tuple(ALGORITHMS),
        ("new", "method"): tuple(ALGORITHMS),
        ("new", "data"): tuple(DATASETS),
    }
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _with_names(inner)
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif (proposed := keys.get((parser.prog.split()[-1], action.dest))) is not None:
            action.choices = proposed
