"""`fl.federate`: a run over real sites, in one call."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.experiments import building, registries
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.settings import parse
from fedloom.federation.job import check_sendable
from fedloom.federation.kits import open_kit
from fedloom.federation.people.submission import follow
from fedloom.measuring.result import Result
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.given import check_method, check_problem, named
from fedloom.simulator.progress import Progress, progress_for


@named
def federate(
    algorithm: Algorithm,
    problem: Problem,
    *,
    kit: str | Path,
    label: str,
    out: str | Path,
    features: Sequence[str] | None = None,
    data: Mapping[str, Any] | None = None,
    rounds: int = 100,
    batch_size: int | None = 32,
    seed: int = 0,
    eval_every: int = 10,
    metrics: Sequence[str] | None = None,
    precision: str = "float32",
    sites: Sequence[str] | None = None,
    min_sites: int | None = None,
    timeout: float = 120.0,
    fresh_if_stale: bool = False,
    secure_aggregation: bool = False,
    resume: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Train with a method over the real sites of a federation, and return the result.

    Args:
        algorithm: The method, such as `fl.algorithms.Scaffold(lr=0.1)`.
        problem: What is optimised, such as `fl.problems.Logistic(l2=1e-3)`.
        kit: Your kit: the folder that `fedloom provision` made for the person who submits the run.
        label: The column to predict, in every site's table.
        out: The folder for the result.
        features: The columns to predict from; None: all others (of raw tables, all except those
            that look like keys or dates).
        data: Further settings of [data]: `{"sites": "*"}` to prepare raw tables together, or `id`
            and `join` if parties hold different columns of the same people.
        rounds: The number of rounds.
        batch_size: Rows in a stochastic gradient; None: full gradients.
        seed: The random seed. The trajectory is that of `simulate` with this seed, to rounding.
        eval_every: The number of rounds from one evaluation to the next.
        metrics: Names of metrics; None: the metrics of the problem.
        precision: "float32" or "float64".
        sites: The sites that take part; None: all that are connected.
        min_sites: The run pauses while fewer sites than this are there; None: all of them.
        timeout: Seconds after which a site that does not answer is left out.
        fresh_if_stale: Whether a site that has lost its state may start with a fresh one.
        secure_aggregation: Whether the server learns only sums of replies, no single reply.
        resume: Whether to continue the last run with the same settings.
        progress: Whether to show a progress bar; None: only if standard error is a terminal.
    """
    check_method("federate", algorithm)
    check_problem("federate", problem)
    run: dict[str, Any] = {
        "rounds": rounds,
        "batch_size": "full" if batch_size is None else batch_size,
        "seed": seed,
        "eval_every": eval_every,
        "precision": precision,
        **({} if metrics is None else {"metrics": list(metrics)}),
    }
    federation = {
        "sites": None if sites is None else list(sites),
        "min_sites": min_sites,
        "timeout": timeout,
        "fresh_if_stale": fresh_if_stale,
        "secure_aggregation": secure_aggregation,
    }
    tables = {
        "data": {
            "label": label,
            **({} if features is None else {"features": list(features)}),
            **(data or {}),
        },
        "algorithm": building.describe(algorithm, registries.ALGORITHMS, tag="key"),
        "problem": building.describe(problem, registries.PROBLEMS),
        "run": run,
        "federation": {name: value for name, value in federation.items() if value is not None},
    }
    place = Location("federate", "", admit=whatever_is_named)
    check_sendable(tables, place)
    settings = parse(tables, place)
    bar = progress_for(
        progress,
        type(algorithm).__name__,
        done=0,
        total=rounds,
        metric=next(iter(metrics or ("accuracy",))),
    )
    try:
        return follow(open_kit(kit, "person"), settings, Path(out), resume=resume, bar=bar)
    finally:
        bar.close()
