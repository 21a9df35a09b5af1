"""Find good settings: every method gets the same search, judged on validation rows only.

A share of each client's training rows is held out; test rows are never looked at before the best
settings are known. The rule: of all settings of a method, the one whose metric on the held-out
rows, at the last evaluation and averaged over the seeds, is best. A setting that diverges for a
seed is out.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedloom.data.parties import Holders
from fedloom.errors import ParameterError
from fedloom.experiments import over_seeds, searching
from fedloom.experiments.comparing import check_metric
from fedloom.experiments.options import SEARCHES
from fedloom.experiments.sampling import AT_ONCE, Sampler
from fedloom.experiments.searching import Setting, Values
from fedloom.experiments.trials import HeldOut, Scores, Trial, Tried
from fedloom.experiments.workers import workers
from fedloom.metrics import chosen as metrics_of
from fedloom.parameters import check, one_of
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.given import (
    check_clients,
    check_methods,
    check_options,
    check_problem,
    checked_seeds,
    named,
)
from fedloom.simulator.run import simulate

_INSTEAD = {  # of options of `simulate`
    "seed": "Write seeds=(0, 1, 2), with every seed that is wanted.",
    "progress": "Leave it out: no bar is shown, and tried=... is called after each run.",
    "on_evaluation": "Write tried=..., which is called after each run.",
    "checkpoint": "Write out=..., a folder in which the outcomes of runs are kept.",
    "resume": "Write out=..., a folder in which the outcomes of runs are kept.",
}
_RUNGS = (4, 2, 1)  # successive halving looks after a quarter and after half of the rounds


class Sweep(NamedTuple):
    """The settings that a sweep tried, and the best one of each method."""

    rows: list[dict[str, Any]]  # one for each setting: method, values, metric, spread, rounds
    best: dict[str, Trial]  # by the method's name
    metric: str  # the column of the history that settings were judged by
    larger_is_better: bool  # whether a larger value of the metric is better

    def remarks(self) -> list[str]:
        """For each method: that no setting has the metric, or which best values end a range."""
        remarks = []
        for method, trial in self.best.items():
            rows = [row for row in self.rows if row["method"] == method]
            if all(math.isnan(row[self.metric]) for row in rows):
                remarks.append(
                    f"{method}: no setting has the metric {self.metric} on held-out rows, as where "
                    f"all diverge, so that the first stands for the best"
                )
                continue
            for field, value in trial.setting.items():
                tried = sorted({row[field] for row in rows if _is_number(row.get(field))})
                if len(tried) > 1 and value in (tried[0], tried[-1]):
                    which = "smallest" if value == tried[0] else "largest"
                    remarks.append(
                        f"{method}: the best {field}, {value:g}, is the {which} that was tried; "
                        f"a wider range may hold a better one"
                    )
        return remarks


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@named
def sweep(
    algorithms: Mapping[str, Algorithm],
    problem: Problem,
    clients: Holders,
    *,
    over: Mapping[str, Values],
    seeds: Sequence[int] = (0,),
    metric: str | None = None,
    validation: float = 0.2,
    search: str = "grid",
    trials: int = 20,
    search_seed: int = 0,
    halving: bool = False,
    out: str | Path | None = None,
    tried: Tried = lambda label, seed, value: None,
    executor: Any = None,
    **options: Any,
) -> Sweep:
    """Search for the best setting of each method.

    Settings are judged on rows that are held out of the clients' training rows, never on test rows.

    Args:
        algorithms: The methods by name, with the values of all fields that are not searched.
        problem: What is optimised.
        clients: The clients and their data.
        over: The fields to search ("lr", "scaffold.lr", "solver.lr", "problem.l2"), each with a
            list of values or a range {"from": 1e-3, "to": 1.0, "count": 4} on a logarithmic scale.
        seeds: The random seeds; every setting runs once with each.
        metric: The column of the history that settings are judged by; None: that of the first
            metric (over clients or over rows, as the problem weighs them).
        validation: The share of each client's training rows that is held out.
        search: "grid" tries every combination; "random" draws `trials` of them; "optuna" takes
            `trials` proposals of Optuna's sampler TPE, four at a time, each based on the results
            before.
        trials: The number of settings for each method, unless the search is a grid.
        search_seed: The seed of draws and proposals, and of the choice of held-out rows.
        halving: Whether to stop poor settings early: after a quarter of the rounds only the better
            half continues, and after half of the rounds the better half of those.
        out: A folder in which the score of every run is kept; a run whose score is already there is
            not repeated.
        tried: Called after each run with the setting, the seed and the metric. Calls never overlap,
            but on a CPU they may come from different threads.
        executor: Runs the sweep in other processes or on other hosts, as for `fl.compare`.
        options: Further arguments of `simulate`, except those of a single run (seed, progress,
            on_evaluation, checkpoint, resume).
    """
    check_methods("sweep", algorithms)
    check_problem("sweep", problem)
    check_clients("sweep", clients)
    seeds = checked_seeds("sweep", seeds)
    check_options("sweep", options, simulate, _INSTEAD)
    check("sweep", "search", search, one_of(*SEARCHES))
    over = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in over.items()}
    searching.check_keys(over, algorithms, problem)
    if search == "optuna" and halving:
        raise ParameterError(
            "sweep: halving needs all settings from the beginning, and search='optuna' proposes "
            "them one after the other. Leave out one or the other."
        )
    judged = metric or metrics_of.headline(options.get("metrics"), problem) or "round"
    check_metric(judged, options.get("metrics"), problem)
    known = metrics_of.of_metrics(options.get("metrics"), problem)
    larger = metrics_of.larger_is_better(judged, known)
    rounds = options.pop("rounds", 100)
    others = None if executor is None else workers(executor, out, False, options)
    judges = HeldOut(clients, validation, search_seed)
    folder = None if out is None else Path(out)
    scores = Scores(judged, judges, seeds, options, folder, tried, others)

    def proposed(own: Mapping[str, Values], make: Callable[[Setting], Trial]) -> Iterable[Trial]:
        if search == "optuna":
            sampler = Sampler(own, search_seed, larger)
            return _sampled(sampler, make, lambda asked: scores.of(asked, rounds), trials)
        random = search == "random"
        drawn = searching.random(own, trials, search_seed) if random else searching.grid(own)
        return map(make, drawn)

    waiting = _trials(algorithms, problem, over, proposed)
    rows: dict[str, dict[str, Any]] = {}
    for share in _RUNGS if halving else (1,):
        values = scores.of(waiting, max(1, rounds // share))
        for trial in waiting:
            rows[trial.label] = _row(trial, values[trial.label], judged, max(1, rounds // share))
        ranked = sorted(waiting, key=lambda trial: _rank(values[trial.label], larger))
        if share > 1:
            waiting = [t for name in algorithms for t in _better_half(ranked, name)]
    scores.forget_runs()
    best = {name: next(t for t in ranked if t.method == name) for name in algorithms}
    return Sweep(list(rows.values()), best, judged, larger)


def _trials(
    algorithms: Mapping[str, Algorithm],
    problem: Problem,
    over: Mapping[str, Values],
    proposed: Callable[[Mapping[str, Values], Callable[[Setting], Trial]], Iterable[Trial]],
) -> list[Trial]:
    """What is proposed for each method, without repetitions."""
    found: dict[str, Trial] = {}
    for name, algorithm in algorithms.items():

        def make(setting: Setting, name: str = name, algorithm: Algorithm = algorithm) -> Trial:
            return Trial(name, setting, *searching.apply(setting, name, algorithm, problem))

        for trial in proposed(searching.concerning(over, name, algorithm, problem), make):
            found.setdefault(trial.label, trial)
    return list(found.values())


def _sampled(
    sampler: Sampler,
    make: Callable[[Setting], Trial],
    scored: Callable[[list[Trial]], dict[str, list[float]]],
    count: int,
) -> list[Trial]:
    """What a sampler proposes by the scores of what it proposed before."""
    found: list[Trial] = []
    while len(found) < count:
        asked = [make(setting) for setting in sampler.ask(min(AT_ONCE, count - len(found)))]
        values = scored(list({trial.label: trial for trial in asked}.values()))
        sampler.tell([statistics.fmean(values[trial.label]) for trial in asked])
        found += asked
    return found


def _better_half(ranked: list[Trial], name: str) -> list[Trial]:
    own = [trial for trial in ranked if trial.method == name]
    return own[: math.ceil(len(own) / 2)]


def _rank(values: list[float], larger_is_better: bool) -> float:
    """Smaller is better; a setting that diverged comes last."""
    mean = statistics.fmean(values)
    if math.isnan(mean):
        return math.inf
    return -mean if larger_is_better else mean


def _row(trial: Trial, values: list[float], metric: str, rounds: int) -> dict[str, Any]:
    return {
        "method": trial.method,
        **trial.setting,
        metric: statistics.fmean(values),
        "spread": over_seeds.spread(values),
        "seeds": len(values),
        "rounds": rounds,
    }
