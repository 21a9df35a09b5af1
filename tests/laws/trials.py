"""The methods that are held to the laws, each on the federation that suits it."""

import functools

import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.entry import MethodEntry
from fedloom.checking.case import Case
from fedloom.checking.federations import trial

ROUNDS = 4
BATCH = 4


@functools.cache
def case(entry: MethodEntry) -> Case:
    """The method's example; its laws share what they run."""
    return Case(entry.example(), trial(entry.kind), rounds=ROUNDS, batch_size=BATCH)


def run(entry: MethodEntry, **options) -> fl.Result:
    """Simulate the method's example for a few rounds, in double precision."""
    return case(entry).simulate(**options)


def wrapped(key: str, cls: type, **trial) -> MethodEntry:
    """A wrapper around a method, which must keep the laws as any method does."""
    return MethodEntry(key, cls, "wrappers", "", "", trial)


_FEDAVG = fl.algorithms.FedAvg(lr=0.1, local_steps=3)
_SCAFFOLD = fl.algorithms.Scaffold(lr=0.1, local_steps=3)
_SCHEDULED = fl.algorithms.Scaffold(
    lr=fl.schedules.Warmup(2, fl.schedules.Cosine(0.1, 3, end=0.01)),
    local_steps=3,
    server_lr=fl.schedules.Exponential(1.0, 0.9),
    optimiser=fl.optimisers.AdamW(clip=1.0),
)
_PRIVATE = {"clip": 0.1, "noise": 0.5}
WRAPPED = (
    wrapped("private fedavg", fl.algorithms.Private, inner=_FEDAVG, **_PRIVATE),
    wrapped("private scaffold", fl.algorithms.Private, inner=_SCAFFOLD, at="client", **_PRIVATE),
    wrapped("unreliable scaffold", fl.algorithms.Unreliable, inner=_SCAFFOLD, drop=0.3, late=0.3),
    wrapped("scheduled scaffold", fl.algorithms.Unreliable, inner=_SCHEDULED, drop=0.3),
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
# At least one of each family, and each thing that a wrapper does. The laws hold these in every test
# run, and all methods by `make test-thorough` or `fedloom check KEY`.
SOME = {
    *("fedavg", "decoupled_prox", "ffmdr", "codasca", "drfa", "quped"),
    *("egvfl_partial", "split_training"),
    *("private fedavg", "private scaffold", "scheduled scaffold", "robust scaffold"),
}
IN_TURN = [
    pytest.param(e, id=e.key, marks=() if e.key in SOME else pytest.mark.thorough) for e in ALL
]
