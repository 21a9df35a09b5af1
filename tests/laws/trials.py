"""The tiny federation on which every method of the catalogue is held to the laws."""

import functools
from typing import NamedTuple

import jax
import numpy as np

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.entry import Entry
from fedloom.data.clients import from_arrays
from fedloom.data.parties import Holders, Parties, from_parties

ROUNDS = 4
BATCH = 4


class Trial(NamedTuple):
    """A problem that suits the method, and clients with unequal numbers of unlike rows."""

    problem: object
    clients: Holders

    def turned(self, order) -> Holders:
        """The same clients, numbered otherwise."""
        if isinstance(self.clients, Parties):
            return self.clients.in_order(order)
        return from_arrays([self.clients.of(i) for i in order])


def client_states(states) -> list:
    """The state of each client, from those of groups that are of one client or hold all."""
    if len(states) == 1:
        (states,) = states
        size = jax.tree.leaves(states)[0].shape[0] if jax.tree.leaves(states) else 0
        return [jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(size)]
    return [jax.tree.map(lambda leaf: leaf[0], state) for state in states]


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
    if kind == "vertical":
        y = rng.normal(size=10)
        blocks = [rng.normal(size=(10, width)) / 3 for width in (1, 3, 2, 1)]
        return Trial(fl.problems.Vertical(l2=0.1), from_parties(blocks, y))
    raise NotImplementedError(f"no trial for problems of kind {kind!r}: add one here")


def run(entry: Entry, **options) -> fl.Result:
    """Simulate the method's example for a few rounds, in double precision."""
    algorithm = options.pop("algorithm", None) or entry.example()
    tried = trial(entry.kind)
    settings = {"rounds": ROUNDS, "batch_size": BATCH, "eval_every": 2, "precision": "float64"}
    return fl.simulate(algorithm, tried.problem, tried.clients, **settings | options)


ALL = list(CATALOGUE.values())
KEYS = [entry.key for entry in ALL]
