"""Checks of what `simulate`, `compare` and the others are given: a method, a problem and clients.

Every error says what to write instead.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from fedloom.data.clients import Clients
from fedloom.data.dataset import Dataset
from fedloom.data.parties import Parties
from fedloom.errors import ParameterError
from fedloom.hints import closest
from fedloom.parameters import needed
from fedloom.problems.base import Problem
from fedloom.problems.constraints import is_constraint
from fedloom.problems.regularisers import Zero
from fedloom.problems.vertical import Vertical
from fedloom.protocol import Algorithm
from fedloom.pytrees import plain

F = TypeVar("F", bound=Callable[..., Any])
_ORDER = "The order is (method, problem, clients)."


def named(function: F) -> F:
    """Decorate a function: errors for wrong arguments name the likely ones, or all missing ones.

    NumPy's numbers are taken for Python's, as records of a run must be written into files.
    """

    @functools.wraps(function)
    def checked(*values: Any, **given: Any) -> Any:
        try:
            return function(*plain(values), **plain(given))
        except TypeError:
            _check_call(function, values, given)
            raise  # it came from within

    return checked  # type: ignore[return-value]


def check_options(
    who: str, given: Mapping[str, Any], function: Callable[..., Any], instead: Mapping[str, str]
) -> None:
    """Raise ParameterError for options that the function of a single run does not take.

    Args:
        who: The function that does many such runs, for messages.
        given: The options.
        function: The function that does one run, such as `simulate`.
        instead: The options that `who` itself sets for each run, with what to write instead.
    """
    known = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name, value in given.items():
        if name in instead:
            raise ParameterError(
                f"{who}: {name} is of a single run, and {who} sets it for each of its runs; got "
                f"{value!r}. {instead[name]}"
            )
        if name not in known:
            raise ParameterError(f"{who}: there is no option {name!r}. {closest(name, known)}")


def check_method(who: str, method: Any, name: str = "algorithm") -> None:
    """Raise ParameterError unless this is a method."""
    if isinstance(method, Algorithm):
        return
    if isinstance(method, type) and issubclass(method, Algorithm):
        hint = f"Write {_call(method)}."
    elif isinstance(method, str):
        from fedloom.algorithms.catalogue import CATALOGUE  # all families, for a hint alone

        entry = CATALOGUE.get(method.lower())
        made = _call(entry.cls) if entry else "FedAvg(lr=0.1)"
        hint = f"A key is for settings files; write fl.algorithms.{made}."
    elif isinstance(method, Problem):
        hint = _ORDER
    else:
        hint = "Pass an object such as fl.algorithms.FedAvg(lr=0.1)."
    raise ParameterError(f"{who}: {name} must be a method; got {_what(method)}. {hint}")


def check_problem(who: str, problem: Any) -> None:
    """Raise ParameterError unless this is a problem."""
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
    """Raise ParameterError unless these are clients or parties; a test set must have rows."""
    if isinstance(clients, Clients | Parties):
        tested = clients.test.y if isinstance(clients, Clients) and clients.test else None
        tested = clients.test_y if isinstance(clients, Parties) else tested
        if tested is not None and not len(tested):
            raise ParameterError(
                f"{who}: clients with test rows must have one at least; they have none, and every "
                f"metric would be nan. Raise test_fraction, or leave it out to measure on "
                f"training rows."
            )
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
    """Raise ParameterError unless these are a method, a problem and clients that fit together."""
    check_method(who, method)
    check_problem(who, problem)
    check_clients(who, clients)


def check_fit(algorithm: Algorithm, problem: Problem) -> None:
    """Raise ParameterError unless the method is for this kind of problem."""
    if algorithm.takes not in (problem.kind, *problem.also):
        raise ParameterError(
            f"{type(algorithm).__name__} is for {algorithm.takes} problems, and "
            f"{type(problem).__name__} is a {problem.kind} one. "
            f"`fedloom list algorithms` says which methods are for which problems."
        )
    name = type(algorithm).__name__
    if isinstance(problem, Vertical) and problem.fusion and not algorithm.takes_fusion:
        raise ParameterError(
            f"{name} adds up the parties' scores, and the problem has a fusion network. Use "
            f"SplitTraining, CVFL or EFVFL, or remove fusion from the problem."
        )
    if algorithm.takes_constraint and not is_constraint(problem.regulariser):
        raise ParameterError(
            f"{name} takes constraints (Box, Ball, Simplex) as the problem's regulariser; got "
            f"{problem.regulariser!r}. Use one of these, or remove it."
        )
    uses_g = algorithm.takes_regulariser or algorithm.takes_constraint
    if not uses_g and not isinstance(problem.regulariser, Zero):
        raise ParameterError(
            f"{name} takes no regulariser, and would ignore {problem.regulariser!r}. "
            f"Remove it from the problem, or choose a method of the composite family."
        )


def check_methods(who: str, methods: Any) -> None:
    """Raise ParameterError unless this is a mapping from names to methods."""
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


def checked_seeds(who: str, seeds: Any) -> tuple[int, ...]:
    """The seeds, of a list or an array; ParameterError unless they are whole and differ."""
    several = not isinstance(seeds, str) and isinstance(seeds, Iterable)
    numbers = tuple(plain(s) for s in seeds) if several else ()
    if numbers and all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in numbers):
        again = [s for i, s in enumerate(numbers) if s in numbers[:i]]
        if not again:
            return numbers
        raise ParameterError(
            f"{who}: seeds must all be different; got {again[0]} twice, which is the same run, in "
            f"{seeds!r}. Write seeds={tuple(dict.fromkeys(numbers))}."
        )
    shown = f"range({seeds})" if isinstance(seeds, int) and seeds > 0 else "(0, 1, 2)"
    raise ParameterError(
        f"{who}: seeds must be a list of whole numbers >= 0; got {seeds!r}. Write seeds={shown}."
    )


def _check_call(function: Callable[..., Any], values: tuple, given: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    who, names = function.__name__, [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    wrong = []
    if len(names) == len(parameters):  # else it takes any names, and looks at them itself
        unknown = [name for name in given if name not in names]
        wrong += [f"there is no argument {name!r}. {closest(name, names)}" for name in unknown]
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(values) > len(positional):
        extra = next(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        wrong.append(
            f"after {', '.join(positional)} arguments are given by name, as in {extra}=...; got "
            f"{len(values)} values."
        )
    there = {*positional[: len(values)], *given}
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    missing = [p.name for p in required if p.name not in there]
    if missing:
        wrong.append(f"{' and '.join(missing)} must be given.")
    if wrong:
        raise ParameterError(f"{who}: {' '.join(wrong)}")


def _call(cls: type) -> str:
    return f"{cls.__name__}({', '.join(f'{name}=...' for name in needed(cls, ()))})"


def _what(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str | int | float) or value is None:
        return repr(value)
    return f"a {type(value).__name__}"
