"""Arguments of public functions that are called by a wrong name, or left out."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fedloom.errors import ParameterError
from fedloom.hints import closest

F = TypeVar("F", bound=Callable[..., Any])


def named(function: F) -> F:
    """Let a call with a wrong argument say which is meant, and all that are missing at once."""

    @functools.wraps(function)
    def checked(*values: Any, **given: Any) -> Any:
        try:
            return function(*values, **given)
        except TypeError:
            _check_call(function, values, given)
            raise  # it came from within

    return checked  # type: ignore[return-value]


def check_options(who: str, given: Iterable[str], function: Callable[..., Any]) -> None:
    """Raise ParameterError where options are not keyword arguments of a function."""
    known = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name in given:
        if name not in known:
            raise ParameterError(f"{who}: there is no option {name!r}. {closest(name, known)}")


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
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    missing = [p.name for p in needed if p.name not in there]
    if missing:
        wrong.append(f"{' and '.join(missing)} must be given.")
    if wrong:
        raise ParameterError(f"{who}: {' '.join(wrong)}")
