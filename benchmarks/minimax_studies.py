"""Rounds of minimax methods to a saddle point that is known, each with its best settings."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import fedloom as fl
from benchmarks.slope_points import Point, Study
from benchmarks.slope_runs import evaluations, first
from fedloom.algorithms import FFMDR, FedNest, FedSGDAM, LocalSGDA, MomentumLocalSGDA
from fedloom.algorithms.minimax.inner import SGDA
from fedloom.protocol import Algorithm


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


STUDIES = {
    "minimax-accuracies": Study(
        "1 / relative distance to the solution", "fewest rounds over the settings tried",
        _THEORY | {"fednest": "4"}, _accuracies,
    ),
    "minimax-conditions": Study(
        "1 / concavity", "fewest rounds to a relative distance of 0.01",
        _THEORY | {"ffmdr": "2, times log", "fednest": "3"}, _conditions,
    ),
}  # fmt: skip
