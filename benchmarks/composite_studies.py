"""Studies of composite methods for `python -m benchmarks.slopes`, on synthetic rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import fedloom as fl
from benchmarks.slope_points import Point, Study
from benchmarks.slope_runs import SEEDS, evaluations, first
from fedloom.algorithms import DecoupledProx, FedDualAvg, FedMid


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
    rows = evaluations(method, problem, held, optimum, **options)
    return float(np.mean([row["distance"] ** 2 for row in rows[len(rows) // 2 :]]))


def _floors() -> Iterator[Point]:
    for seed in SEEDS:
        for lr in (0.05, 0.1, 0.2, 0.4):
            yield Point("step size", lr, seed, _floor(lr=lr, seed=seed))
        for batch in (5, 20, 80, 320):
            yield Point("rows in a batch", batch, seed, _floor(batch=batch, seed=seed))
        for copies in (1, 2, 4, 8):
            yield Point("clients", 5 * copies, seed, _floor(copies=copies, seed=seed))


ALPHAS = (0.1, 1.0, 10.0, 100.0)


def _unlike_clients(alpha: float) -> tuple[Any, Any, Any]:
    """Clients, their problem and its solution; alpha = beta says how unlike they are."""
    held, problem = fl.data.synthetic(alpha, alpha, clients=30, features=20), _composite(0.01)
    return held, problem, fl.reference(problem, held)


def _unlike() -> Iterator[Point]:
    """Optimality after 300 rounds with full gradients, as clients become more unlike."""
    methods = {"decoupled_prox": DecoupledProx, "fedmid": FedMid, "feddualavg": FedDualAvg}
    for alpha in ALPHAS:
        held, problem, optimum = _unlike_clients(alpha)
        for name, kind in methods.items():
            options = {"rounds": 300, "metrics": ("optimality",)}
            rows = evaluations(kind(lr=1.0, local_steps=5), problem, held, optimum, **options)
            yield Point(name, alpha, 0, rows[-1]["optimality"])


def _paces() -> Iterator[Point]:
    """Rounds to an optimality of 1e-6, also of one client that has the rows of all.

    With another alpha the rows of all pose another problem: one client shows what is due to that.
    """
    options = {"rounds": 1000, "eval_every": 1, "metrics": ("optimality",)}
    for alpha in ALPHAS:
        held, problem, optimum = _unlike_clients(alpha)
        whole = fl.data.from_arrays([(held.train.x, held.train.y)])
        for name, clients in (
            ("decoupled_prox", held),
            ("decoupled_prox, one client", whole),
        ):
            method = DecoupledProx(lr=1.0, local_steps=5)
            found = evaluations(method, problem, clients, optimum, 1e-6, **options)
            yield Point(name, alpha, 0, first(found, "optimality", 1e-6))


STUDIES = {
    "composite-floors": Study(
        "what the first column names", "mean of |x - x*|^2 over rounds 200 to 400",
        {"step size": "1", "rows in a batch": "-1", "clients": "-1"}, _floors,
    ),
    "composite-unlike": Study(
        "alpha = beta", "optimality after 300 rounds with full gradients", None, _unlike, log=True
    ),
    "composite-paces": Study(
        "alpha = beta", "rounds to an optimality of 1e-6 with full gradients",
        {"decoupled_prox": "0"}, _paces,
    ),
}  # fmt: skip
