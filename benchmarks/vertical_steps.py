"""Tune the step of each method of a vertical settings file: iterations to the file's target.

    python -m benchmarks.vertical_steps vertical-compression [--seeds 3] [--only NAME]

Steps (for ADMM: rho) are powers of one factor, so that all methods have the same grid. From the
file's value, or theory's, the search goes up and down as long as the median over the seeds gets
better, and two values further. A value counts only if every seed reaches the target.

A full vector is a number a row to or from a party, averaged over parties; the opening is left out.
"""

import argparse
import dataclasses
import math
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import fedloom as fl
from fedloom.errors import DivergedError
from fedloom.experiments import settings
from fedloom.experiments.papers import available
from fedloom.experiments.settings import Settings
from fedloom.protocol import Algorithm

HOPELESS = 1e3  # a relative gap from which nobody comes back
PATIENCE = 2


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


def tune(tuner: Tuner, name: str, method: Algorithm, factor: float, rounds: int) -> None:
    """Search on the grid, and print each value as it is done."""
    field = "rho" if hasattr(method, "rho") else "step"
    value = getattr(method, field) or tuner.theory(method)
    start = round(math.log(value, factor))
    best, found = start, Runs([], tuner.seeds)
    for way in (1, -1):
        power, waited = start if way == 1 else start - 1, 0
        while waited < PATIENCE:
            limit = min(rounds, 2 * found.iterations)
            value = float(f"{factor**power:.4g}")
            runs = tuner.run(dataclasses.replace(method, **{field: value}), int(limit))
            print(f"    {name}, {field} {value}: {_text(runs, int(limit))}", flush=True)
            better = runs.iterations < found.iterations
            best, found = (power, runs) if better else (best, found)
            waited = 0 if better else waited + 1
            power += way
    print(f"| {name} | {factor**best:.4g} | {_text(found, rounds)} |", flush=True)


def _text(runs: Runs, rounds: int) -> str:
    if math.isinf(runs.iterations):
        return f"not all in {rounds}"
    each = ", ".join(str(int(row["round"])) for row in runs.reached)
    down, up = runs.median("down"), runs.median("up")
    return f"{runs.iterations:.0f} ({each}) | {down + up:.0f} ({down:.0f} down, {up:.0f} up)"


def main() -> None:
    """Read the settings and tune one method after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", help="the name of a reproduction, or a settings file")
    parser.add_argument("--factor", type=float, default=1.25)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6000)
    parser.add_argument("--only", action="append", help="names of methods; without it, all")
    chosen: Any = parser.parse_args()
    path = available().get(chosen.settings, Path(chosen.settings))
    setup = settings.read(path, {})
    tuner = Tuner(setup, chosen.seeds)
    print("| method | step | iterations | full vectors |\n| --- | --- | --- | --- |")
    for name, method in setup.algorithms.items():
        if not chosen.only or name in chosen.only:
            tune(tuner, name, method, chosen.factor, chosen.rounds)


if __name__ == "__main__":
    main()
