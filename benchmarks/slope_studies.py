"""Studies for `python -m benchmarks.slopes`: small problems in which one thing is varied.

A series is a line of a table: the same thing measured at several values of what is varied, for
several seeds where there are draws. The slopes that papers state are of upper bounds, so that a
measured one below them agrees with the theory.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import fedloom as fl
from benchmarks import (
    personal_collapse,
    personal_studies,
    robust_iterations,
    robust_seconds,
    vertical_head,
)
from benchmarks.slope_points import Point, Study
from fedloom.algorithms import (
    EGVFL,
    FFMDR,
    DecoupledProx,
    EGVFLAugmented,
    EGVFLCompressed,
    EGVFLDual,
    EGVFLPartial,
    EGVFLSlacks,
    FedDualAvg,
    FedMid,
    FedNest,
    FedSGDAM,
    LocalSGDA,
    SharingADMM,
    VerticalAGD,
    VerticalGD,
)
from fedloom.algorithms.minimax.inner import SGDA
from fedloom.errors import DivergedError
from fedloom.operators.compressors import RandK
from fedloom.protocol import Algorithm

SEEDS = range(3)


class _EnoughError(Exception):
    """The run has shown what it was started for."""


def _rows(
    method: Algorithm, problem: Any, held: Any, optimum: Any, until: float = 0.0, **options: Any
) -> list[dict[str, float]]:
    """The evaluations of a run in double precision, until it diverged or its metric got there."""
    options = {"precision": "float64", "batch_size": None, "progress": False} | options
    (metric,), rows = options["metrics"], list[dict[str, float]]()

    def look(row: dict[str, float]) -> None:
        rows.append(row)
        if row[metric] <= until:
            raise _EnoughError

    with contextlib.suppress(_EnoughError, DivergedError):
        fl.simulate(method, problem, held, optimum=optimum, on_evaluation=look, **options)
    return rows


def _composite(l2: float) -> Any:
    return fl.problems.Logistic(l2=l2, regulariser=fl.problems.L1(1e-4))


def _floor(lr: float = 0.2, batch: int = 20, copies: int = 2, seed: int = 0) -> float:
    """The mean squared distance to the solution over the last half of 400 rounds.

    Copies of five clients pose the same problem with more clients, each with draws of its own.
    """
    five = fl.data.synthetic(10, 10, clients=5, samples=500, features=20)
    own = [(five.of(i).x, five.of(i).y) for i in range(5)]
    held, problem = fl.data.from_arrays(own * copies), _composite(0.1)
    method, optimum = DecoupledProx(lr=lr, local_steps=5), fl.reference(problem, held)
    options = {"rounds": 400, "batch_size": batch, "seed": seed, "metrics": ("distance",)}
    rows = _rows(method, problem, held, optimum, **options)
    return float(np.mean([row["distance"] ** 2 for row in rows[len(rows) // 2 :]]))


def _floors() -> Iterator[Point]:
    for seed in SEEDS:
        for lr in (0.05, 0.1, 0.2, 0.4):
            yield Point("step size", lr, seed, _floor(lr=lr, seed=seed))
        for batch in (5, 20, 80, 320):
            yield Point("rows in a batch", batch, seed, _floor(batch=batch, seed=seed))
        for copies in (1, 2, 4, 8):
            yield Point("clients", 5 * copies, seed, _floor(copies=copies, seed=seed))


def _unlike() -> Iterator[Point]:
    """Optimality after 300 rounds with full gradients, as clients become more unlike."""
    methods = {"decoupled_prox": DecoupledProx, "fedmid": FedMid, "feddualavg": FedDualAvg}
    for alpha in (0.1, 1.0, 10.0, 100.0):
        held, problem = fl.data.synthetic(alpha, alpha, clients=30, features=20), _composite(0.01)
        optimum = fl.reference(problem, held)
        for name, kind in methods.items():
            options = {"rounds": 300, "metrics": ("optimality",)}
            rows = _rows(kind(lr=1.0, local_steps=5), problem, held, optimum, **options)
            yield Point(name, alpha, 0, rows[-1]["optimality"])


def _first(rows: Sequence[dict[str, float]], column: str, target: float) -> float | None:
    """The first round at which a column is at its target."""
    return next((row["round"] for row in rows if row[column] <= target), None)


def _columns(scale: float) -> tuple[Any, np.ndarray, float]:
    """The features of `breast_cancer`, standardised, times a number; labels; largest eigenvalue."""
    rows = fl.data.load("breast_cancer")
    x = np.asarray(rows.x, float)
    x = scale * (x - x.mean(0)) / x.std(0) / math.sqrt(len(x))
    return np.array_split(x, 5, axis=1), 2.0 * rows.y - 1, float(np.linalg.eigvalsh(x.T @ x)[-1])


def _iterations(
    method: Algorithm, scale: float, seed: int, rounds: int, condition: float = 1000
) -> float | None:
    """The iterations to a relative gap of 1e-4, with a penalty of eigenvalue / condition."""
    blocks, y, largest = _columns(scale)
    problem, parties = fl.problems.Vertical(l2=largest / condition), fl.data.from_parties(blocks, y)
    optimum = fl.reference(problem, parties)
    options = {"rounds": rounds, "eval_every": 10, "seed": seed, "metrics": ("relative_gap",)}
    rows = _rows(method, problem, parties, optimum, 1e-4, **options)
    return _first(rows, "relative_gap", 1e-4)


def _eigenvalues() -> Iterator[Point]:
    """The sum over rows by theory's steps; the penalty is so small that L_r stays below the rest.

    At these scales x* is small beside the slack and the price, whose distance is the same at all.
    """
    for scale in (50.0, 100.0, 200.0, 300.0):
        largest = _columns(scale)[2]
        methods = {
            "EGVFL": EGVFL(),
            "EGVFL, beta-trick": EGVFL(beta_trick=True),
            "6: slacks": EGVFLSlacks(),
            "9: augmented": EGVFLAugmented(rho=1 / math.sqrt(largest)),
            "10: dual": EGVFLDual(),
            "GD": VerticalGD(),
            "AGD": VerticalAGD(),
            "ADMM": SharingADMM(),
        }
        for name, method in methods.items():
            value = _iterations(method, scale, 0, 300_000, condition=30_000)
            yield Point(name, float(f"{largest:.4g}"), 0, value)


def _shares() -> Iterator[Point]:
    """What is left out: numbers of a vector, or parties."""
    for seed in SEEDS:
        for per_cent in (100, 50, 25, 10):
            method: Algorithm = EGVFLCompressed(RandK(per_cent), beta_trick=True)
            value = _iterations(method, 10.0, seed, 40_000)
            yield Point("RandK: 1 / share of numbers", 100 / per_cent, seed, value)
        for parties in (5, 4, 3, 2, 1):
            method = EGVFLPartial(parties, beta_trick=True)
            value = _iterations(method, 10.0, seed, 40_000)
            yield Point("parties: 5 / those that answer", 5 / parties, seed, value)


def _saddle(concavity: float) -> tuple[Any, Any]:
    """Ten unlike clients with one row each, so that gradients are exact."""
    rng = np.random.default_rng(0)
    couplings, linear = rng.normal(size=(10, 1, 5, 5)) / math.sqrt(5), rng.normal(size=(10, 1, 10))
    problem = fl.problems.Bilinear(concavity=concavity, regulariser=fl.problems.L1(1e-2))
    return problem, fl.data.from_arrays(list(zip(couplings, linear, strict=True)))


def _steps(longest: float) -> list[float]:
    """Six steps, each a third of the one before."""
    return [float(f"{longest / 3**power:.3g}") for power in range(6)]


def _pairs(longest: float) -> list[tuple[float, float]]:
    """Steps in x, each with four of the dual: from a third to nine times as long."""
    return [(x, times * x) for x in _steps(longest) for times in (1 / 3, 1.0, 3.0, 9.0)]


def _fastest(
    methods: Sequence[Algorithm], concavity: float, targets: Sequence[float]
) -> list[float | None]:
    """For each relative distance the fewest rounds to it, over settings of a method."""
    problem, clients = _saddle(concavity)
    optimum = fl.reference(problem, clients, dual=methods[0].dual)
    options = {"rounds": 2000, "eval_every": 5, "metrics": ("optimality",)}
    runs = [_rows(method, problem, clients, optimum, min(targets), **options) for method in methods]
    found = [[_first(rows, "optimality", target) for rows in runs] for target in targets]
    return [min((f for f in of_runs if f is not None), default=None) for of_runs in found]


# Two dozen settings each, of two parameters: six steps, and four of what stands beside them.
_SADDLE: dict[str, tuple[Algorithm, ...]] = {
    "ffmdr": tuple(
        FFMDR(beta=beta, solver=SGDA(lr=lr, epochs=10))
        for lr in _steps(0.3)
        for beta in (0.1, 1.0, 10.0, 100.0)
    ),
    "local_sgda": tuple(LocalSGDA(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(0.03)),
    "fedsgda_m": tuple(FedSGDAM(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(0.03)),
    "fednest": tuple(FedNest(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(1.0)),
}


def _accuracies() -> Iterator[Point]:
    targets = (1e-1, 1e-2, 1e-3, 1e-4)
    for name, methods in _SADDLE.items():
        for target, value in zip(targets, _fastest(methods, 1.0, targets), strict=True):
            yield Point(name, round(1 / target), 0, value)


def _conditions() -> Iterator[Point]:
    for name, methods in _SADDLE.items():
        for concavity in (1.0, 0.3, 0.1, 0.03):
            (value,) = _fastest(methods, concavity, (1e-2,))
            yield Point(name, float(f"{1 / concavity:.3g}"), 0, value)


STUDIES = personal_studies.STUDIES | personal_collapse.STUDIES | vertical_head.STUDIES | {
    **robust_seconds.STUDIES,
    **robust_iterations.STUDIES,
    "composite-floors": Study(
        "what the first column names", "mean of |x - x*|^2 over rounds 200 to 400",
        {"step size": "1", "rows in a batch": "-1", "clients": "-1"}, _floors,
    ),
    "composite-unlike": Study(
        "alpha = beta", "optimality after 300 rounds with full gradients",
        {"decoupled_prox": "0"}, _unlike,
    ),
    "vertical-eigenvalues": Study(
        "largest eigenvalue of A'A", "iterations to a relative gap of 1e-4",
        {
            "EGVFL": "1/2", "EGVFL, beta-trick": "1/3", "6: slacks": "1/2", "9: augmented": "1/2",
            "10: dual": "1/2", "GD": "0", "AGD": "0", "ADMM": "1/2",
        },
        _eigenvalues,
    ),
    "vertical-shares": Study(
        "what the first column names", "iterations to a relative gap of 1e-4",
        {"RandK: 1 / share of numbers": "1", "parties: 5 / those that answer": "1/2 to 1"}, _shares,
    ),
    "minimax-accuracies": Study(
        "1 / relative distance to the solution", "fewest rounds over the settings tried",
        {"ffmdr": "2", "local_sgda": "4", "fedsgda_m": "3", "fednest": "4"}, _accuracies,
    ),
    "minimax-conditions": Study(
        "1 / concavity", "fewest rounds to a relative distance of 0.01",
        {"ffmdr": "2", "local_sgda": "4", "fedsgda_m": "3", "fednest": "3"}, _conditions,
    ),
}  # fmt: skip
