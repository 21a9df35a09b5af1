"""The best settings of a sweep as files that `fedloom run` and `fedloom compare` take."""

from fedloom.experiments import described
from fedloom.experiments.described import Tables
from fedloom.experiments.settings import Settings
from fedloom.experiments.sweeping import Sweep
from fedloom.experiments.written import document, with_whole_paths


def files(setup: Settings, found: Sweep) -> dict[str, str]:
    """Texts by file name: one for all methods, or one for each where problems or wrappers differ.

    A settings file has one problem and the same wrappers around every method.
    """
    best = found.best
    around = {
        name: described.around(trial.algorithm, trial.problem) for name, trial in best.items()
    }
    methods = {name: described.method(name, trial.algorithm) for name, trial in best.items()}
    if all(tables == next(iter(around.values())) for tables in around.values()):
        one = next(iter(around.values()))
        return {"best.toml": _text(setup, one, list(methods.values()))}
    return {
        f"best-{name.replace('/', '-')}.toml": _text(setup, around[name], [methods[name]])
        for name in methods
    }


def _text(setup: Settings, around: Tables, methods: list[Tables]) -> str:
    tables = {name: table for name, table in setup.tables.items() if name != "sweep"}
    return document(with_whole_paths(tables) | around | {"algorithm": methods})
