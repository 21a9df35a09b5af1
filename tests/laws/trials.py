"""The tiny federation on which every method of the catalogue is held to the laws."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
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

    def turned(self, order: tuple[int, ...]) -> "Trial":
        """The same federation with its clients in another order."""
        if isinstance(self.clients, Parties):
            return self._replace(clients=self.clients.in_order(order))
        problem, what_clients_have = self.problem, {}
        for name in ("own", "bits"):
            if isinstance(getattr(problem, name, None), tuple):
                what_clients_have[name] = tuple(getattr(problem, name)[i] for i in order)
        return Trial(
            dataclasses.replace(problem, **what_clients_have),
            from_arrays([self.clients.of(i) for i in order]),
        )

    def groups(self) -> list[list[int]]:
        """The clients of each group, in the order in which their states are stacked."""
        everyone = list(range(len(self.clients)))
        if isinstance(self.clients, Parties):
            return [[i] for i in everyone]
        groups = self.problem.groups(self.clients)
        return [everyone if members is None else list(members) for _, members in groups]


def undrawn(width: int) -> fl.models.Model:
    """A network that begins the same whoever has it, so that no law depends on who that is."""
    network = fl.models.MLP((width,))

    def create(key, spec):
        shapes = jax.eval_shape(lambda: network.init(key, spec))
        waves = lambda s: jnp.sin(jnp.arange(1.0, s.size + 1, dtype=s.dtype)).reshape(s.shape)  # noqa: E731
        return jax.tree.map(waves, shapes)

    return fl.models.Pair(create, network.apply)


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
    if kind == "personal":  # two architectures, one of them quantised
        own, bits = (undrawn(3), undrawn(2)) * 2, (2, 32) * 2
        problem = fl.problems.Personal(fl.models.MLP((2,)), own, bits, keep=(-1,), l2=0.1)
        return Trial(problem, from_arrays(rows))
    if kind == "personal-alike":  # one architecture and bit-width, so that laws compile faster
        problem = fl.problems.Personal(fl.models.MLP((2,)), undrawn(2), 1, keep=(-1,), l2=0.1)
        return Trial(problem, from_arrays(rows))
    if kind == "saddle":
        ranking = fl.problems.AUC(regulariser=fl.problems.L1(0.02))
        return Trial(ranking, from_arrays(rows))
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


def wrapped(key: str, cls: type, **trial) -> Entry:
    """A wrapper around a method, which must keep the laws as any method does."""
    return Entry(key, cls, "wrappers", "", "", trial)


_FEDAVG = fl.algorithms.FedAvg(lr=0.1, local_steps=3)
_SCAFFOLD = fl.algorithms.Scaffold(lr=0.1, local_steps=3)
_PRIVATE = {"clip": 0.1, "noise": 0.5}
WRAPPED = (
    wrapped("private fedavg", fl.algorithms.Private, inner=_FEDAVG, **_PRIVATE),
    wrapped("private scaffold", fl.algorithms.Private, inner=_SCAFFOLD, at="client", **_PRIVATE),
    wrapped("unreliable scaffold", fl.algorithms.Unreliable, inner=_SCAFFOLD, drop=0.3, late=0.3),
    wrapped(
        "robust fedavg",
        fl.algorithms.Unreliable,
        inner=fl.algorithms.Robust(_FEDAVG, fl.aggregators.TrimmedMean(0.3)),
        drop=0.2,
    ),
    wrapped(
        "robust scaffold",
        fl.algorithms.Unreliable,
        inner=fl.algorithms.Robust(_SCAFFOLD, fl.aggregators.GeometricMedian()),
        late=0.2,
    ),
)

ALL = [*CATALOGUE.values(), *WRAPPED]
KEYS = [entry.key for entry in ALL]
