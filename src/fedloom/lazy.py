"""Public names that load when they are first used.

JAX, the families and the readers take more than a second to import. Whoever asks for the version,
for help or for one family need not wait for the rest.
"""

import difflib
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_DUNDER = ("__all__", "__doc__", "__file__", "__name__", "__version__")  # what `dir` shows too


class Lazy(NamedTuple):
    """The names that a package exports: `__all__, __getattr__, __dir__ = names(...)`."""

    names: list[str]
    getattr: Callable[[str], Any]
    dir: Callable[[], list[str]]


def names(package: str, table: Mapping[str, tuple[str, ...]]) -> Lazy:
    """The public names of a package, each loaded at its first use.

    Args:
        package: Its `__name__`.
        table: For each module within the package, the names that it has; without names, the module
            itself is public, under the last part of its own name.
    """
    homes = {name: module for module, having in table.items() for name in having}
    modules = {module.rpartition(".")[2]: module for module, having in table.items() if not having}
    public = sorted((*homes, *modules))

    def load(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        else:
            value = _module(package, name, modules.get(name, name), public)
        setattr(sys.modules[package], name, value)  # Python asks `load` for missing names only
        return value

    def listed() -> list[str]:
        return _listed(package)

    return Lazy(public, load, listed)


def _listed(package: str) -> list[str]:
    there = vars(sys.modules[package])
    return sorted({*there["__all__"], *(name for name in _DUNDER if name in there)})


def public(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """For a module with an `__all__`: its `__getattr__` and `__dir__`.

    A typo of a public name is an error that names it, and `dir` lists public names only.
    """

    def missing(name: str) -> Any:
        raise no_attribute(package, name, sys.modules[package].__all__)

    def listed() -> list[str]:
        return _listed(package)

    return missing, listed


def _module(package: str, name: str, module: str, public: list[str]) -> Any:
    """A module of the package; those that are not public may be had as well."""
    wanted = f"{package}.{module}"
    try:
        if not name.startswith("_"):  # Python itself asks for many names that begin so
            return importlib.import_module(wanted)
    except ModuleNotFoundError as error:
        if error.name != wanted:
            raise  # the module is there, and something that it needs is not
    raise no_attribute(package, name, public)


def no_attribute(package: str, name: str, known: list[str]) -> AttributeError:
    """The error for a name that is not there; one that comes close is named."""
    near = [] if name.startswith("_") else difflib.get_close_matches(name, known, n=1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    return AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
