"""Studies for `python -m benchmarks.slopes`: small problems in which one thing is varied.

A series is a line of a table: the same thing measured at several values of what is varied, for
several seeds where there are draws. The slopes that papers state are of upper bounds, so that a
measured one below them agrees with the theory.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import fedloom as fl
from benchmarks import (
    composite_studies,
    personal_collapse,
    personal_studies,
    robust_seconds,
    vertical_head,
)
from benchmarks.slope_points import Point, Study
from benchmarks.slope_runs import SEEDS, evaluations, first
from fedloom.algorithms import (
    EGVFL,
    FFMDR,
    EGVFLCompressed,
    EGVFLPartial,
    FedNest,
    FedSGDAM,
    LocalSGDA,
    MomentumLocalSGDA,
    SharingADMM,
    VerticalAGD,
    VerticalGD,
)
from fedloom.algorithms.minimax.inner import SGDA
from fedloom.operators.compressors import RandK
from fedloom.protocol import Algorithm


def _columns(scale: float) -> tuple[Any, np.ndarray, float]:
    """The features of `breast_cancer`, standardised, times a number; labels; largest eigenvalue."""
    rows = fl.data.load("breast_cancer")
    x = np.asarray(rows.x, float)
    x = scale * (x - x.mean(0)) / x.std(0) / math.sqrt(len(x))
    return np.array_split(x, 5, axis=1), 2.0 * rows.y - 1, float(np.linalg.eigvalsh(x.T @ x)[-1])


def _iterations(method: Algorithm, scale: float, seed: int, rounds: int) -> tuple[float, Any]:
    """The largest eigenvalue, and the iterations to a relative gap of 1e-4."""
    blocks, y, largest = _columns(scale)
    problem, parties = fl.problems.Vertical(l2=largest / 1000), fl.data.from_parties(blocks, y)
    optimum = fl.reference(problem, parties)
    options = {"rounds": rounds, "eval_every": 10, "seed": seed, "metrics": ("relative_gap",)}
    rows = evaluations(method, problem, parties, optimum, 1e-4, **options)
    return largest, first(rows, "relative_gap", 1e-4)


def _eigenvalues() -> Iterator[Point]:
    """The sum over rows by theory's steps; the penalty is a thousandth of the eigenvalue."""
    methods = {
        "EGVFL": EGVFL(), "EGVFL, beta-trick": EGVFL(beta_trick=True), "GD": VerticalGD(),
        "AGD": VerticalAGD(), "ADMM": SharingADMM(),
    }  # fmt: skip
    for name, method in methods.items():
        for scale in (1.0, 3.0, 10.0, 30.0):
            largest, value = _iterations(method, scale, 0, 20_000)
            yield Point(name, float(f"{largest:.4g}"), 0, value)


def _shares() -> Iterator[Point]:
    """What is left out: numbers of a vector, or parties."""
    for seed in SEEDS:
        for per_cent in (100, 50, 25, 10):
            method: Algorithm = EGVFLCompressed(RandK(per_cent), beta_trick=True)
            value = _iterations(method, 10.0, seed, 40_000)[1]
            yield Point("RandK: 1 / share of numbers", 100 / per_cent, seed, value)
        for parties in (5, 4, 3, 2, 1):
            method = EGVFLPartial(parties, beta_trick=True)
            value = _iterations(method, 10.0, seed, 40_000)[1]
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
    runs = [
        evaluations(method, problem, clients, optimum, min(targets), **options)
        for method in methods
    ]
    found = [[first(rows, "optimality", target) for rows in runs] for target in targets]
    return [min((f for f in of_runs if f is not None), default=None) for of_runs in found]


# Two dozen settings each, of two parameters: six steps, and four of what stands beside them.
SADDLE: dict[str, tuple[Algorithm, ...]] = {
    "ffmdr": tuple(
        FFMDR(beta=beta, solver=SGDA(lr=lr, epochs=10))
        for lr in _steps(0.3)
        for beta in (0.1, 1.0, 10.0, 100.0)
    ),
    "local_sgda": tuple(LocalSGDA(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(0.03)),
    "momentum_local_sgda": tuple(
        MomentumLocalSGDA(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(0.03)
    ),
    "fedsgda_m": tuple(FedSGDAM(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(0.03)),
    "fednest": tuple(FedNest(lr=x, dual_lr=y, local_steps=10) for x, y in _pairs(1.0)),
}

# Powers in the paper's Table 1, of the accuracy and of the condition where they are the same.
_THEORY = {"ffmdr": "2", "local_sgda": "4", "momentum_local_sgda": "4", "fedsgda_m": "3"}


def _accuracies() -> Iterator[Point]:
    targets = (1e-1, 1e-2, 1e-3, 1e-4)
    for name, methods in SADDLE.items():
        for target, value in zip(targets, _fastest(methods, 1.0, targets), strict=True):
            yield Point(name, round(1 / target), 0, value)


def _conditions() -> Iterator[Point]:
    for name, methods in SADDLE.items():
        for concavity in (1.0, 0.3, 0.1, 0.03):
            (value,) = _fastest(methods, concavity, (1e-2,))
            yield Point(name, float(f"{1 / concavity:.3g}"), 0, value)


STUDIES = personal_studies.STUDIES | personal_collapse.STUDIES | vertical_head.STUDIES | {
    **robust_seconds.STUDIES, **composite_studies.STUDIES,
    "vertical-eigenvalues": Study(
        "largest eigenvalue of A'A", "iterations to a relative gap of 1e-4",
        {"EGVFL": "1/2", "EGVFL, beta-trick": "1/3", "GD": "0", "AGD": "0", "ADMM": "1/2"},
        _eigenvalues,
    ),
    "vertical-shares": Study(
        "what the first column names", "iterations to a relative gap of 1e-4",
        {"RandK: 1 / share of numbers": "1", "parties: 5 / those that answer": "1/2 to 1"}, _shares,
    ),
    "minimax-accuracies": Study(
        "1 / relative distance to the solution", "fewest rounds over the settings tried",
        _THEORY | {"fednest": "4"}, _accuracies,
    ),
    "minimax-conditions": Study(
        "1 / concavity", "fewest rounds to a relative distance of 0.01",
        _THEORY | {"ffmdr": "2, times log", "fednest": "3"}, _conditions,
    ),
}  # fmt: skip
