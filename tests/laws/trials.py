"""The tiny federation on which every method of the catalogue is held to the laws."""

import functools
from typing import NamedTuple

import numpy as np

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.entry import Entry
from fedloom.data.clients import Clients, from_arrays

ROUNDS = 4
BATCH = 4


class Trial(NamedTuple):
    """A problem that suits the method, and clients with unequal numbers of unlike rows."""

    problem: object
    clients: Clients


@functools.cache
def trial(kind: str) -> Trial:
    rng = np.random.default_rng(7)
    sizes = (6, 9, 6, 9)
    rows = [(rng.normal(i / 2, 1, (m, 3)), rng.integers(0, 2, m)) for i, m in enumerate(sizes)]
    if kind == "smooth":
        return Trial(fl.problems.Logistic(l2=0.1), from_arrays(rows))
    if kind == "composite":
        sparse = fl.problems.Logistic(l2=0.1, regulariser=fl.problems.L1(0.05))
        return Trial(sparse, from_arrays(rows))
    if kind == "saddle":
        ranking = fl.problems.AUC(regulariser=fl.problems.L1(0.02))
        return Trial(ranking, from_arrays(rows))
    raise NotImplementedError(f"no trial for problems of kind {kind!r}: add one here")


def run(entry: Entry, **options) -> fl.Result:
    """Simulate the method's example for a few rounds, in double precision."""
    algorithm = options.pop("algorithm", None) or entry.example()
    tried = trial(entry.kind)
    settings = {"rounds": ROUNDS, "batch_size": BATCH, "eval_every": 2, "precision": "float64"}
    return fl.simulate(algorithm, tried.problem, tried.clients, **settings | options)


ALL = list(CATALOGUE.values())
KEYS = [entry.key for entry in ALL]
