"""Small runs that the studies of `python -m benchmarks.slopes` are made of."""

import contextlib
from collections.abc import Sequence
from typing import Any

import fedloom as fl
from fedloom.errors import DivergedError
from fedloom.protocol import Algorithm

SEEDS = range(3)


class _EnoughError(Exception):
    """The run has shown what it was started for."""


def evaluations(
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


def first(rows: Sequence[dict[str, float]], column: str, target: float) -> float | None:
    """The first round at which a column is at its target."""
    return next((row["round"] for row in rows if row[column] <= target), None)
