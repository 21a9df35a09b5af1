"""Iterations of the vertical methods as the eigenvalue, or what is left out, varies."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import fedloom as fl
from benchmarks.slope_points import Point, Study
from benchmarks.slope_runs import SEEDS, evaluations, first
from fedloom.algorithms import (
    EGVFL,
    EGVFLAugmented,
    EGVFLCompressed,
    EGVFLDual,
    EGVFLPartial,
    EGVFLSlacks,
    SharingADMM,
    VerticalAGD,
    VerticalGD,
)
from fedloom.operators.compressors import RandK
from fedloom.protocol import Algorithm


def columns(scale: float) -> tuple[Any, np.ndarray, float]:
    """The features of `breast_cancer`, standardised, times a number; labels; largest eigenvalue."""
    rows = fl.data.load("breast_cancer")
    x = np.asarray(rows.x, float)
    x = scale * (x - x.mean(0)) / x.std(0) / math.sqrt(len(x))
    return np.array_split(x, 5, axis=1), 2.0 * rows.y - 1, float(np.linalg.eigvalsh(x.T @ x)[-1])


def _iterations(
    method: Algorithm, scale: float, seed: int, rounds: int, condition: float = 1000
) -> float | None:
    """The iterations to a relative gap of 1e-4, with a penalty of eigenvalue / condition."""
    blocks, y, largest = columns(scale)
    problem, parties = fl.problems.Vertical(l2=largest / condition), fl.data.from_parties(blocks, y)
    optimum = fl.reference(problem, parties)
    options = {"rounds": rounds, "eval_every": 10, "seed": seed, "metrics": ("relative_gap",)}
    rows = evaluations(method, problem, parties, optimum, 1e-4, **options)
    return first(rows, "relative_gap", 1e-4)


def _eigenvalues() -> Iterator[Point]:
    """The sum over rows by theory's steps; the penalty is so small that L_r stays below the rest.

    At these scales x* is small beside the slack and the price, whose distance is the same at all.
    """
    for scale in (50.0, 100.0, 200.0, 300.0):
        largest = columns(scale)[2]
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


STUDIES = {
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
}  # fmt: skip
