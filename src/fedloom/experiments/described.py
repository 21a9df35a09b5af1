"""Methods and problems written as tables of a settings file, from which they can be rebuilt."""

from typing import Any

from fedloom.algorithms.wrappers.base import Wrapper, innermost
from fedloom.experiments import building, registries
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm

Tables = dict[str, Any]


def method(name: str, algorithm: Algorithm) -> Tables:
    """The [[algorithm]] table of a method, without what is wrapped around it."""
    own = building.describe(innermost(algorithm), registries.ALGORITHMS, tag="key")
    return {"name": name, **own}


def around(algorithm: Algorithm, problem: Problem) -> Tables:
    """The tables beside a method's own: the problem and the wrappers."""
    wrappers = _wrappers(algorithm)
    described = building.describe(problem, registries.PROBLEMS)
    return {"problem": described} | ({"wrapper": wrappers} if wrappers else {})


def _wrappers(algorithm: Algorithm) -> list[Tables]:
    """The wrappers, the innermost first, as a settings file has them."""
    if not isinstance(algorithm, Wrapper):
        return []
    own = building.describe(algorithm, registries.WRAPPERS)
    return [*_wrappers(algorithm.inner), {key: v for key, v in own.items() if key != "inner"}]
