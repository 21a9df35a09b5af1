"""The best settings of a sweep as files that `fedloom run` and `fedloom compare` take."""

from typing import Any

from fedloom.algorithms.wrappers.base import Wrapper, innermost
from fedloom.experiments import building, registries
from fedloom.experiments.settings import Settings
from fedloom.experiments.sweeping import Sweep, Trial
from fedloom.experiments.written import document, with_whole_paths
from fedloom.protocol import Algorithm

Tables = dict[str, Any]


def files(setup: Settings, found: Sweep) -> dict[str, str]:
    """Texts by file name: one for all methods, or one for each where problems or wrappers differ.

    A settings file has one problem and the same wrappers around every method.
    """
    around = {name: _around(trial) for name, trial in found.best.items()}
    methods = {name: _method(trial) for name, trial in found.best.items()}
    if all(tables == next(iter(around.values())) for tables in around.values()):
        one = next(iter(around.values()))
        return {"best.toml": _text(setup, one, list(methods.values()))}
    return {
        f"best-{name.replace('/', '-')}.toml": _text(setup, around[name], [methods[name]])
        for name in methods
    }


def _around(trial: Trial) -> Tables:
    """What stands around a method: the problem and the wrappers."""
    wrappers = _wrappers(trial.algorithm)
    problem = building.describe(trial.problem, registries.PROBLEMS)
    return {"problem": problem} | ({"wrapper": wrappers} if wrappers else {})


def _wrappers(method: Algorithm) -> list[Tables]:
    """The wrappers, the innermost first, as a settings file has them."""
    if not isinstance(method, Wrapper):
        return []
    own = building.describe(method, registries.WRAPPERS)
    return [*_wrappers(method.inner), {key: v for key, v in own.items() if key != "inner"}]


def _method(trial: Trial) -> Tables:
    own = building.describe(innermost(trial.algorithm), registries.ALGORITHMS, tag="key")
    return {"name": trial.method, **own}


def _text(setup: Settings, around: Tables, methods: list[Tables]) -> str:
    tables = {name: table for name, table in setup.tables.items() if name != "sweep"}
    return document(with_whole_paths(tables) | around | {"algorithm": methods})
