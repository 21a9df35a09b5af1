"""The settings that a sweep tries, and the score of each on held-out rows."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.checksums import digest, read_json, write_json
from fedloom.data.parties import Holders
from fedloom.data.validation import hold_out
from fedloom.experiments import same_rows
from fedloom.experiments.orders import forget_rows, keep_rows, order
from fedloom.experiments.searching import Setting
from fedloom.experiments.workers import Task, Workers
from fedloom.files import folder_name, inside
from fedloom.measuring.result import Result
from fedloom.pictures import labels
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.simulator.many_runs import PlannedRun, simulate_many

_RUNS = ".trials"  # in the folder of a sweep: the runs that workers do
Tried = Callable[[str, int, float], None]


class Trial(NamedTuple):
    """A setting of a method."""

    method: str  # its name
    setting: Setting  # the values of the fields that are searched
    algorithm: Algorithm  # the method with these values
    problem: Problem  # the problem with these values

    @property
    def label(self) -> str:
        """The method and its setting, as a text that keeps them apart from all others."""
        return self.method + " " + json.dumps(self.setting, sort_keys=True)

    @property
    def words(self) -> str:
        """The same for people; tables have all digits."""
        values = (
            f"{name} {labels.number(value) if isinstance(value, float) else value}"
            for name, value in self.setting.items()
        )
        return ", ".join([self.method, *values])


class HeldOut(NamedTuple):
    """Clients, and which share of their training rows judges settings."""

    clients: Holders
    share: float
    seed: int  # of the choice of rows


class Scores:
    """The metric of settings after some rounds; what was computed once is not computed again."""

    def __init__(
        self,
        metric: str,
        judges: HeldOut,
        seeds: tuple[int, ...],
        options: dict[str, Any],
        out: Path | None,
        tried: Tried,
        workers: Workers | None,
    ):
        self.metric, self.seeds, self.options = metric, seeds, options
        self.judges, self.tried, self.workers, self.out = judges, tried, workers, out
        self.clients = hold_out(*judges)
        given = [repr(options.get(name)) for name in ("batch_size", "precision")]
        held = (judges.clients.identity(), judges.share, judges.seed)
        told = judges.clients.fingerprint() or ()  # to fewer digits than differ by rounding
        digits = [f"{number:.9g}" for number in told]
        # What scores depend on too. A fedloom that knew no fingerprints wrote the earlier facts.
        self._earlier = "\n".join([metric, *given, *map(str, held)])
        self._facts = "\n".join([self._earlier, *digits])
        self.file = out and inside(out, "trials.json")
        self.known: dict[str, float | None] = {}  # None: it diverged
        if self.file and self.file.exists():
            self.known = read_json(self.file)
        self.results: dict[str, Result] = {}
        if workers:
            keep_rows(workers.source, seeds, lambda seed: judges.clients)

    def of(self, trials: list[Trial], rounds: int) -> dict[str, list[float]]:
        """For each setting, the metric for each seed."""
        missing = [
            (trial, seed)
            for trial in trials
            for seed in self.seeds
            if not self._is_known(trial, seed, rounds)
        ]

        def finished(i: int, result: Result) -> None:
            trial, seed = missing[i]
            value = result.final[self.metric] if result.status == "done" else None
            self.known[self._key(trial, seed, rounds)] = value
            self._keep()
            self.tried(trial.words, seed, _or_nan(value))

        every = max(1, rounds // 4)  # only the last evaluation counts
        if self.workers is None:
            self._here(missing, {"rounds": rounds, "eval_every": every}, finished)
        else:
            changed = {"rounds": rounds, "eval_every": every}
            tasks = [self._task(self.workers, trial, seed, changed) for trial, seed in missing]
            self.workers.run(tasks, finished)
        return {
            t.label: [_or_nan(self.known[self._key(t, s, rounds)]) for s in self.seeds]
            for t in trials
        }

    def forget_runs(self) -> None:
        """Remove what workers have left: the scores are known."""
        if self.workers is not None and self.out is not None:
            shutil.rmtree(self.out / _RUNS, ignore_errors=True)
            forget_rows(self.workers.source)

    def _here(
        self,
        missing: list[tuple[Trial, int]],
        changed: dict[str, Any],
        finished: Callable[[int, Result], None],
    ) -> None:
        jobs = [
            PlannedRun(t.algorithm, t.problem, seed, self.results.get(f"{t.label} {seed}"))
            for t, seed in missing
        ]

        def ended(i: int, result: Result) -> None:
            trial, seed = missing[i]
            self.results[f"{trial.label} {seed}"] = result
            finished(i, result)

        simulate_many(jobs, self.clients, finished=ended, **self.options | changed)

    def _task(self, workers: Workers, trial: Trial, seed: int, changed: dict[str, Any]) -> Task:
        name, own = folder_name(trial.method), digest(trial.label.encode())[:16]
        return Task(
            f"{trial.words}, seed {seed}",
            order(
                *(workers.source, trial.method, trial.algorithm, trial.problem),
                run={"seed": seed, **changed},
                notes=same_rows.noted(self.clients),
                held_out=(self.judges.share, self.judges.seed),
            ),
            inside(self.out or Path(), f"{_RUNS}/{name}/{own}/seed-{seed}"),
        )

    def _is_known(self, trial: Trial, seed: int, rounds: int) -> bool:
        """Whether there is a score; one of an earlier fedloom is taken as that of these features.

        From then on it has their fingerprint, as nothing said that they were others.
        """
        key = self._key(trial, seed, rounds)
        earlier = self._key(trial, seed, rounds, self._earlier)
        if key not in self.known and earlier in self.known:
            self.known[key] = self.known.pop(earlier)
            self._keep()
        return key in self.known

    def _key(self, trial: Trial, seed: int, rounds: int, of: str | None = None) -> str:
        facts = "\n".join([of or self._facts, repr(trial.algorithm), repr(trial.problem)])
        return f"{trial.label} seed {seed} rounds {rounds} of {digest(facts.encode())[:16]}"

    def _keep(self) -> None:
        if self.file:
            write_json(self.file, self.known, shared=True)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
