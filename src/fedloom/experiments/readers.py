"""The options of [data] beside a name or a path: those of the function that reads the data."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedloom.data.array_files import read_array_folder
from fedloom.data.entries import DatasetEntry
from fedloom.data.image_folder import read_image_folder
from fedloom.data.leaf import read_leaf
from fedloom.data.libsvm import read_libsvm
from fedloom.data.tables import read_table
from fedloom.data.tokens import read_text_folder, read_text_table

_ENTRY = re.compile(r" {4}(\w+): (.*)")  # an entry of "Args:"; its further lines are indented more


class Option(NamedTuple):
    """An option of a reader."""

    name: str
    doc: str
    default: Any  # inspect.Parameter.empty where it must be given

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty


def options_of(function: Callable[..., Any]) -> list[Option]:
    """The options of a function, with what its docstring says of each."""
    bound = function.keywords if isinstance(function, functools.partial) else {}
    inner: Any = function.func if isinstance(function, functools.partial) else function
    meanings = meanings_in(inner.__doc__ or "")
    return [
        Option(p.name, meanings.get(p.name, ""), p.default)
        for p in inspect.signature(inner).parameters.values()
        if p.name not in bound and p.annotation is not p.empty
    ]


def meanings_in(docstring: str) -> dict[str, str]:
    """What a docstring says of each argument."""
    found: dict[str, str] = {}
    name = None
    for line in inspect.cleandoc(docstring).partition("Args:\n")[2].splitlines():
        if entry := _ENTRY.fullmatch(line):
            name, found[entry[1]] = entry[1], entry[2]
        elif name and line.startswith(" " * 8):
            found[name] += f" {line.strip()}"
        else:
            name = None
    return found


def options_of_data(thing: DatasetEntry | Callable[..., Any]) -> list[Option]:
    """The options of a dataset: of its entry in the catalogue, or of the function that makes it."""
    if not isinstance(thing, DatasetEntry):
        return options_of(thing)
    verify = Option("verify", "whether to check the files against published checksums", False)
    named = [name for copy in thing.copies for name in copy.options]
    known = {o.name: o for copy in thing.copies for o in options_of(copy.read)}
    return [verify, *(known[name] for name in dict.fromkeys(named))]


def options_of_path() -> Iterator[Option]:
    """The options of all readers of files."""
    folders = (read_leaf, read_image_folder, read_text_folder, read_array_folder)
    for reader in (*folders, read_text_table, read_libsvm, read_table):
        yield from options_of(reader)[1:]  # behind the path itself
