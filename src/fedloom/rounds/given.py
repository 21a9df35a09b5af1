"""Whether what a program passes is a method, a problem and clients; what to write if it is not."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.data.clients import Clients
from fedloom.data.dataset import Dataset
from fedloom.data.parties import Parties
from fedloom.errors import ParameterError
from fedloom.parameters import needed
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

_ORDER = "The order is (method, problem, clients)."


def check_method(who: str, method: Any, name: str = "algorithm") -> None:
    """Raise ParameterError where something is no method."""
    if isinstance(method, Algorithm):
        return
    if isinstance(method, type) and issubclass(method, Algorithm):
        hint = f"Write {_call(method)}."
    elif isinstance(method, str):
        entry = CATALOGUE.get(method.lower())
        made = _call(entry.cls) if entry else "FedAvg(lr=0.1)"
        hint = f"A key is for settings files; write fl.algorithms.{made}."
    elif isinstance(method, Problem):
        hint = _ORDER
    else:
        hint = "Pass an object such as fl.algorithms.FedAvg(lr=0.1)."
    raise ParameterError(f"{who}: {name} must be a method; got {_what(method)}. {hint}")


def check_problem(who: str, problem: Any) -> None:
    """Raise ParameterError where something is no problem."""
    if isinstance(problem, Problem):
        return
    if isinstance(problem, type) and issubclass(problem, Problem):
        hint = f"Write {_call(problem)}."
    elif isinstance(problem, Algorithm | Clients | Parties):
        hint = _ORDER
    else:
        hint = "Pass an object such as fl.problems.Logistic(l2=1e-3)."
    raise ParameterError(f"{who}: problem must be a problem; got {_what(problem)}. {hint}")


def check_clients(who: str, clients: Any) -> None:
    """Raise ParameterError where something is not clients or parties."""
    if isinstance(clients, Clients | Parties):
        return
    if isinstance(clients, Dataset):
        hint = (
            "It is not divided over clients yet: "
            'fl.data.partition(dataset, "dirichlet", clients=10, alpha=0.5).'
        )
    elif isinstance(clients, Algorithm | Problem):
        hint = _ORDER
    elif isinstance(clients, list | tuple | Mapping):
        hint = "Of arrays, clients are made by fl.data.from_arrays([(x1, y1), (x2, y2)])."
    else:
        hint = "Pass what fl.data.partition, fl.data.from_arrays or fl.data.from_parties returns."
    raise ParameterError(f"{who}: clients must be clients or parties; got {_what(clients)}. {hint}")


def check_all(who: str, method: Any, problem: Any, clients: Any) -> None:
    """Raise ParameterError where one of the three is not what it should be."""
    check_method(who, method)
    check_problem(who, problem)
    check_clients(who, clients)


def check_methods(who: str, methods: Any) -> None:
    """Raise ParameterError where methods are not given by name."""
    if not isinstance(methods, Mapping):
        listed = methods if isinstance(methods, Iterable) and not isinstance(methods, str) else ()
        named = [type(m).__name__ for m in [methods, *listed] if isinstance(m, Algorithm)]
        shown = ", ".join(f'"{name}": {name}(...)' for name in named or ["FedAvg"])
        raise ParameterError(
            f"{who}: algorithms must be methods by their names; got {_what(methods)}. "
            f"Write {{{shown}}}."
        )
    if not methods:
        raise ParameterError(
            f'{who}: algorithms must have a method; got none. Write {{"FedAvg": FedAvg(...)}}.'
        )
    for name, method in methods.items():
        check_method(who, method, f"algorithms[{name!r}]")


def check_seeds(who: str, seeds: Any) -> None:
    """Raise ParameterError where seeds are not several whole numbers."""
    several = not isinstance(seeds, str) and isinstance(seeds, Iterable)
    numbers = list(seeds) if several else []
    if numbers and all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in numbers):
        return
    shown = f"range({seeds})" if isinstance(seeds, int) and seeds > 0 else "(0, 1, 2)"
    raise ParameterError(
        f"{who}: seeds must be a list of whole numbers >= 0; got {seeds!r}. Write seeds={shown}."
    )


def _call(cls: type) -> str:
    return f"{cls.__name__}({', '.join(f'{name}=...' for name in needed(cls, ()))})"


def _what(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str | int | float) or value is None:
        return repr(value)
    return f"a {type(value).__name__}"
