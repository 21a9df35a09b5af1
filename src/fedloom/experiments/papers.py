"""The papers' own numbers for the settings that repeat them: `reproductions/papers/*.toml`.

A file is a paper, and each of its tables is called as the settings file that it belongs to.
"""

import functools
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from fedloom.errors import SettingsError
from fedloom.experiments import building
from fedloom.experiments.locations import Location
from fedloom.experiments.paper_panels import Panel, panels
from fedloom.hints import closest
from fedloom.parameters import Rule, at_least_zero, flag, names, param, parametrised
from fedloom.rules import text

_text = text("Table 1")
_numbers = Rule(
    lambda v: isinstance(v, dict) and all(isinstance(x, int | float) for x in v.values()),
    "a table with a number for each method",
    {},
)
_called = Rule(
    lambda v: isinstance(v, dict) and all(isinstance(name, str) for name in v.values()),
    "a table with a name for each method",
    {},
)
_rounds = Rule(
    lambda v: isinstance(v, list | tuple) and all(isinstance(x, int) and x > 0 for x in v),
    "a list of rounds",
    (),
)


@parametrised
class Facts:
    """A table or a figure of a paper, and how it stands with its repetition."""

    shows: str = param(_text, "which table or figure it is")
    data: str = param(_text, "the data that must be at hand")
    minutes: float = param(at_least_zero, "what a run takes on a free machine, in minutes, about")
    machine: str = param(_text, "on what it takes that long", default="2 cores")
    run: bool = param(flag, "whether raw results are in docs/reproductions/raw", default=False)
    part: bool = param(flag, "whether some of its runs were not made", default=False)
    printed: dict[str, float] | None = param(
        _numbers.or_none("it prints none"), "the paper's number for each method", default=None
    )
    best: bool = param(
        flag, "whether the paper prints the best value over rounds, not the last", default=False
    )
    tuned_on_test: tuple[str, ...] = param(
        names(), "methods whose parameters were chosen with test figures", default=()
    )
    rounds: tuple[int, ...] = param(_rounds, "rounds whose values the table has too", default=())
    panels: tuple[Panel, ...] = param(
        panels, "the panels of its picture; none: the main metric against its cost", default=()
    )
    apart: bool = param(
        flag, "whether each method has a small panel of its picture, however few", default=False
    )
    whole: bool = param(
        flag, "whether its picture has room for values far below the others", default=False
    )
    called: dict[str, str] | None = param(
        _called.or_none("as in the settings"), "names of methods in its picture", default=None
    )


def available() -> dict[str, Path]:
    """The settings files that come with fedloom, by name."""
    return {path.stem: path for path in sorted(_folder().glob("*.toml"))}


def facts(name: str) -> Facts:
    """What the paper shows in the place of a settings file that comes with fedloom."""
    return _all()[name]


@functools.cache
def _all() -> dict[str, Facts]:
    known, found = available(), {}
    for path in sorted((_folder() / "papers").glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        place = Location(str(path), text)
        for name, table in tomllib.loads(text).items():
            if name not in known:
                hint = closest(name, known)
                raise (place / name).error(f"there are no settings of this name. {hint}")
            found[name] = building.construct(Facts, table, place / name)
    return found


def check_names(name: str, one: Facts, methods: Iterable[str]) -> None:
    """Refuse numbers and remarks about methods that the settings do not have."""
    known = list(methods)
    drawn = [method for panel in one.panels for method in panel.methods]
    for method in (*(one.printed or {}), *one.tuned_on_test, *(one.called or {}), *drawn):
        if method not in known:
            raise SettingsError(
                f"what is said of the paper for {name} names a method {method!r} that its "
                f"settings do not have. {closest(method, known)}"
            )


def state(one: Facts) -> str:
    """Whether it was run here."""
    if one.part:
        return "run in part"
    return "run" if one.run else "not run"


def took(one: Facts, machine: bool = True) -> str:
    """The time of a run, and on what; without `machine` that is said of a GPU only."""
    if not machine:
        gpu = "" if "core" in one.machine else f", {one.machine.removeprefix('one ')}"
        return f"{_time(one)}{gpu}"
    return f"{_time(one)}, {one.machine}"


def _time(one: Facts) -> str:
    return f"{60 * one.minutes:.0f} s" if one.minutes < 1.5 else f"{one.minutes:g} min"


def listed() -> list[dict[str, Any]]:
    """A row for each reproduction: what it repeats, what it needs, what it takes, how it stands."""
    known = _all()
    return [
        {
            "name": name,
            "repeats": known[name].shows,
            "data": known[name].data,
            "time": took(known[name]),
            "state": state(known[name]),
        }
        for name in available()
    ]


def _folder() -> Path:
    return Path(str(resources.files("fedloom") / "reproductions"))
