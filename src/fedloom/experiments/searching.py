"""Which settings a sweep tries: a grid over all values, or random draws from them."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.errors import ParameterError
from fedloom.hints import closest
from fedloom.parameters import at_least, check, positive
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

Values = Sequence[Any] | Mapping[str, Any]
Setting = dict[str, Any]


def log_range(low: float, high: float, count: int) -> list[float]:
    """`count` numbers from `low` to `high`, each the same factor from the next."""
    return [float(f"{value:.6g}") for value in np.geomspace(low, high, count)]


def grid(over: Mapping[str, Values]) -> list[Setting]:
    """Every combination."""
    columns = [_listed(field, values) for field, values in over.items()]
    return [dict(zip(over, row, strict=True)) for row in itertools.product(*columns)]


def random(over: Mapping[str, Values], trials: int, seed: int) -> list[Setting]:
    """Seeded draws: from a list evenly, from a range evenly on a logarithmic scale."""
    rng = np.random.default_rng(seed)

    def draw(field: str, values: Values) -> Any:
        if isinstance(values, Mapping):
            low, high = ends(field, values)
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))
        return values[int(rng.integers(len(values)))]

    return [{field: draw(field, values) for field, values in over.items()} for _ in range(trials)]


def concerning(
    over: Mapping[str, Values], name: str, algorithm: Algorithm, problem: Problem
) -> dict[str, Values]:
    """The part of a sweep that a method has fields for.

    A key is a field of the method ("lr"), of a method by its name ("scaffold.lr"), or of the
    problem ("problem.l2"). It may lead into a part with fields of its own ("solver.lr"). What is
    said of a method by its name stands in the place of what is said of all.
    """
    return {
        key: values
        for key, values in over.items()
        if f"{name}.{key}" not in over and _owner(key, name, algorithm, problem) is not None
    }


def check_keys(
    over: Mapping[str, Values], algorithms: Mapping[str, Algorithm], problem: Problem
) -> None:
    """Every key must concern someone."""
    if not isinstance(over, Mapping):
        raise ParameterError(
            f"over must be a table with the values of each field; got {over!r}. "
            f"Try lr = [0.01, 0.1]."
        )
    if not over:
        raise ParameterError("over must name at least one field; got none. Try lr = [0.01, 0.1].")
    for key, values in over.items():
        _listed(key, values)
        if all(_owner(key, *method, problem) is None for method in algorithms.items()):
            known = {f for a in algorithms.values() for f in _fields(a)}
            known |= {f"problem.{f}" for f in _fields(problem)}
            raise ParameterError(
                f"over: {key!r} is a field of none of the methods and not of the problem. "
                f"{closest(key, sorted(known))}"
            )


def apply(
    setting: Setting, name: str, algorithm: Algorithm, problem: Problem
) -> tuple[Algorithm, Problem]:
    """The method and the problem with the values of a setting."""
    changes: dict[int, dict[str, Any]] = {id(algorithm): {}, id(problem): {}}
    for key, value in setting.items():
        found = _owner(key, name, algorithm, problem)
        if found is not None:
            owner, path = found
            changes[id(owner)][path] = value
    return _changed(algorithm, changes[id(algorithm)]), _changed(problem, changes[id(problem)])


def _owner(
    key: str, name: str, algorithm: Algorithm, problem: Problem
) -> tuple[Algorithm | Problem, str] | None:
    """Whose field a key is, and the way to it."""
    owners: tuple[tuple[str, Algorithm | Problem], ...]
    owners = (("problem.", problem), (f"{name}.", algorithm), ("", algorithm))
    for prefix, owner in owners:
        path = key.removeprefix(prefix)
        if key.startswith(prefix) and path in _fields(owner):
            return owner, path
    return None


def _fields(made: Any) -> set[str]:
    """The fields of an object and of its parts; those of a wrapped method are its wrapper's too."""
    found: set[str] = set()
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if field.name == "inner" and isinstance(made, Wrapper):
            found |= _fields(value)
            continue
        found.add(field.name)
        if dataclasses.is_dataclass(value):
            found |= {f"{field.name}.{inside}" for inside in _fields(value)}
    return found


def _changed(made: Any, changes: dict[str, Any]) -> Any:
    own = {field.name for field in dataclasses.fields(made)}
    here: dict[str, Any] = {}
    deeper: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        field, _, rest = path.partition(".")
        if field not in own:
            field, rest = "inner", path
        if rest:
            deeper.setdefault(field, {})[rest] = value
        else:
            here[field] = value
    for field, inside in deeper.items():
        here[field] = _changed(here.get(field, getattr(made, field)), inside)
    return dataclasses.replace(made, **here)


def _listed(field: str, values: Values) -> list[Any]:
    if isinstance(values, Mapping):
        count = values.get("count", 5)
        check("over", f"{field}.count", count, at_least(1))
        return log_range(*ends(field, values), count)
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ParameterError(
            f"over: {field} must be a list of values, or a range such as "
            f"{{ from = 1e-3, to = 1.0, count = 4 }}; got {values!r}. Change it."
        )
    return list(values)


def ends(field: str, values: Mapping[str, Any]) -> tuple[float, float]:
    """Where a range begins and ends."""
    if not {"from", "to"} <= set(values) <= {"from", "to", "count"}:
        raise ParameterError(
            f"over: the range of {field} must have from and to, and may have count; got "
            f"{', '.join(values) or 'nothing'}. Write {{ from = 1e-3, to = 1.0, count = 4 }}."
        )
    for end in ("from", "to"):
        check("over", f"{field}.{end}", values[end], positive)
    low, high = float(values["from"]), float(values["to"])
    if low > high:
        raise ParameterError(
            f"over: {field}.from must be at most {field}.to, {high:g}; got {low:g}. Swap them."
        )
    return low, high
