"""Tune the step of each method of a vertical settings file: iterations to the file's target.

    python -m benchmarks.vertical_steps vertical-compression [--factor 1.12] [--seeds 3]

Steps (for ADMM: rho) are the file's value, or theory's, times powers of one factor, the same for
all methods. The search goes up and down as long as the median over the seeds gets better, and two
values further; down also as long as nothing got there, to a hundredth. A value counts only if every
seed reaches the target. All values that were tried go to docs/reproductions/raw/NAME-steps.json,
from which `python -m tools.reproductions` makes a table.

A full vector is a number a row to or from a party, averaged over parties; the opening is left out.
"""

import argparse
import dataclasses
import json
import math
import os
import platform
import statistics
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import fedloom as fl
from fedloom.errors import DivergedError
from fedloom.experiments import settings
from fedloom.experiments.folder import versions
from fedloom.experiments.papers import available
from fedloom.experiments.settings import Settings
from fedloom.protocol import Algorithm

HOPELESS = 1e3  # a relative gap from which nobody comes back
PATIENCE = 2
LEAST = 0.01  # of the start, if nothing gets to the target
RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"


class _EnoughError(Exception):
    """The run has shown what it was started for."""


class Runs(NamedTuple):
    """What came of one value: the evaluations at which the seeds were at the target."""

    reached: list[dict[str, float]]
    seeds: int

    @property
    def iterations(self) -> float:
        """The median over the seeds; infinite where one did not get there."""
        if len(self.reached) < self.seeds:
            return math.inf
        return statistics.median(row["round"] for row in self.reached)

    def median(self, column: str) -> float:
        """Of a column, at the target."""
        return statistics.median(row[column] for row in self.reached)


class Tuner:
    """Runs methods of a settings file until they are at its target."""

    def __init__(self, setup: Settings, seeds: int):
        self.setup, self.seeds = setup, seeds
        self.parties = setup.clients()
        self.optimum = fl.reference(setup.problem, self.parties)

    def run(self, method: Algorithm, rounds: int) -> Runs:
        """All seeds, or those up to the first that does not get there."""
        reached: list[dict[str, float]] = []
        for seed in range(self.seeds):
            row = self._to_target(method, seed, rounds)
            if row is None:
                break
            reached.append(row)
        return Runs(reached, self.seeds)

    def _to_target(self, method: Algorithm, seed: int, rounds: int) -> dict[str, float] | None:
        options, rows = self.setup.run.options(), []
        del options["checkpoint_seconds"]

        def look(row: dict[str, float]) -> None:
            rows.append(row)
            if not self.setup.compare.target < row["relative_gap"] < HOPELESS:
                raise _EnoughError

        changed = {"seed": seed, "rounds": rounds, "optimum": self.optimum, "progress": False}
        try:
            fl.simulate(
                method, self.setup.problem, self.parties, on_evaluation=look, **options | changed
            )
        except (_EnoughError, DivergedError):
            pass
        if not rows[-1]["relative_gap"] <= self.setup.compare.target:
            return None
        number = 8 if options["precision"] == "float64" else 4
        vector = number * self.parties.rows * len(self.parties)
        sent = {way: rows[-1][f"bytes_{way}"] - rows[0][f"bytes_{way}"] for way in ("up", "down")}
        return rows[-1] | {way: count / vector for way, count in sent.items()}

    def theory(self, method: Algorithm) -> float:
        """The step that the method finds by itself."""
        options = {"rounds": 1, "precision": self.setup.run.precision, "metrics": ("objective",)}
        state = fl.simulate(method, self.setup.problem, self.parties, **options).state
        return float(state.clients[0].scale.step.ravel()[0])


def tune(
    tuner: Tuner, name: str, method: Algorithm, factor: float, rounds: int
) -> list[dict[str, Any]]:
    """Search on the grid, print each value as it is done, and tell of all of them."""
    field = "rho" if hasattr(method, "rho") else "step"
    start = getattr(method, field) or tuner.theory(method)
    found, tried = Runs([], tuner.seeds), []
    for way in (1, -1):
        power, waited = (0, 0) if way == 1 else (-1, 0)
        while waited < PATIENCE and factor**power > LEAST:
            limit = int(min(rounds, 2 * found.iterations))
            value = float(f"{start * factor**power:.4g}")
            runs = tuner.run(dataclasses.replace(method, **{field: value}), limit)
            tried.append({"method": name, field: value, "limit": limit, **_told(runs)})
            print(json.dumps(tried[-1]), flush=True)
            better = runs.iterations < found.iterations
            found = runs if better else found
            none_yet = way == -1 and math.isinf(found.iterations)
            waited = 0 if better or none_yet else waited + 1
            power += way
    return tried


def _told(runs: Runs) -> dict[str, Any]:
    """The iterations of each seed that got there, and what was sent until then."""
    each = [int(row["round"]) for row in runs.reached]
    if math.isinf(runs.iterations):
        return {"iterations": each, "all": False}
    sent = {way: round(runs.median(way), 1) for way in ("down", "up")}
    return {"iterations": each, "all": True, **sent}


def main() -> None:
    """Read the settings and tune one method after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", help="the name of a reproduction", choices=available())
    parser.add_argument("--factor", type=float, default=1.25)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6000)
    chosen: Any = parser.parse_args()
    setup = settings.read(available()[chosen.settings])
    tuner, tried = Tuner(setup, chosen.seeds), []
    for name, method in setup.algorithms.items():
        tried += tune(tuner, name, method, chosen.factor, chosen.rounds)
    about = {
        "settings": chosen.settings,
        "command": f"python -m benchmarks.vertical_steps {chosen.settings} --factor "
        f"{chosen.factor:g} --seeds {chosen.seeds} --rounds {chosen.rounds}",
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": {package: v for package, v in versions().items() if package != "fedloom"},
        "target": setup.compare.target,
    }
    (RAW / f"{chosen.settings}-steps.json").write_text(text(about, tried), encoding="utf-8")


def text(about: dict[str, Any], tried: list[dict[str, Any]]) -> str:
    """A file of raw results, a value that was tried in a line."""
    lines = ",\n".join(f"    {json.dumps(line)}" for line in tried)
    return f'{json.dumps(about, indent=2)[:-2]},\n  "tried": [\n{lines}\n  ]\n}}\n'


if __name__ == "__main__":
    main()
