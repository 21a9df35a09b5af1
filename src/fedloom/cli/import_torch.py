"""`fedloom import-torch package.module:build --example 1,3,32,32 --out net.safetensors`."""

import argparse
import re
from pathlib import Path
from typing import Any

from fedloom.errors import ParameterError
from fedloom.experiments.addresses import address, name_files_absolutely, thing_at
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.files import free
from fedloom.models.graph.from_torch import from_torch, torch_here
from fedloom.models.graph.in_training import draws
from fedloom.models.graph.program import NORMS

_SHAPE = re.compile(r"\d+(,\d+)*")
_PLACE = Location("the command line", "", ("MODULE",), whatever_is_named)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "module",
        metavar="MODULE",
        help="package.module:build or file.py:build, a module or a function that returns one",
    )
    parser.add_argument(
        "--example",
        required=True,
        metavar="ROWS,...",
        help="the shape of rows as PyTorch has them, such as 1,3,32,32",
    )
    parser.add_argument(
        "--whole-numbers",
        action="store_true",
        help="rows are whole numbers, such as the words of a text",
    )
    parser.add_argument(
        "--norm",
        choices=NORMS,
        help="what becomes of batch norms: group norms, the statistics that they have, or "
        "statistics that are trained, and may stay at each client",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the network")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    if not _SHAPE.fullmatch(arguments.example):
        raise ParameterError(
            f"--example must be whole numbers with commas between them; got "
            f"{arguments.example!r}. Try --example 1,3,32,32."
        )
    free(arguments.out)
    shape = [int(size) for size in arguments.example.split(",")]
    graph = from_torch(
        _module(arguments.module), _rows(shape, arguments.whole_numbers), norm=arguments.norm
    )
    graph = graph.save(arguments.out)
    held = graph.held
    trained, frozen = (
        sum(array.size for array in arrays.values()) for arrays in (held.trained, held.frozen)
    )
    print(
        f"{arguments.out}: {len(held.program.nodes)} operations; {trained} numbers are trained, "
        f"{frozen} are frozen{'; training has dropout' if draws(held.program) else ''}"
    )
    print(f'model = {{ kind = "graph", file = "{arguments.out}" }}')
    return 0


def _module(name: str) -> Any:
    """What the name leads to: a module, or what a function returns."""
    tables = {"import": {"key": name}}
    name_files_absolutely(tables, Path.cwd())
    at = address(tables["import"]["key"])
    if at is None:
        raise ParameterError(
            f"MODULE must be package.module:build or file.py:build; got {name!r}. "
            f"Name a function that returns the module."
        )
    torch = torch_here()
    found = thing_at(at, _PLACE)
    made = found() if callable(found) and not isinstance(found, torch.nn.Module) else found
    if not isinstance(made, torch.nn.Module):
        raise ParameterError(
            f"{name} must be a torch.nn.Module, or return one; got a {type(made).__name__}."
        )
    return made


def _rows(shape: list[int], whole_numbers: bool) -> Any:
    torch = torch_here()
    return torch.zeros(shape, dtype=torch.int64) if whole_numbers else torch.randn(shape)
