"""What Local SGDA+ and FedSGDA+ share: ascent against a model that stays put for some rounds."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax.numpy as jnp

from fedloom.algorithms.minimax.point import Point, descend_ascend, first_point, minus, settled
from fedloom.cohorts import everyone
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.protocol import Round, ask
from fedloom.types import Array, Scalar


class Snapshotting(Protocol):
    """The fields that these methods share."""

    @property
    def lr(self) -> float:
        """Step size of the local steps in x."""

    @property
    def dual_lr(self) -> float:
        """Step size of the local steps in y."""

    @property
    def local_steps(self) -> int:
        """Local steps a round."""

    @property
    def snapshot_every(self) -> int:
        """Rounds for which the snapshot stays."""

    @property
    def regularise(self) -> str:
        """How g enters."""


class SnapshotHub(NamedTuple):
    """The global point, the model that the dual sees, and how many rounds are done."""

    point: Point
    snapshot: Array
    rounds: Array


class Work(NamedTuple):
    """Where a client begins, and the model that its dual sees."""

    start: Point
    snapshot: Array


def first_snapshot(fed: SaddleFedView, key: Array) -> SnapshotHub:
    """A fresh point, and its model as the snapshot."""
    point = first_point(fed, key)
    return SnapshotHub(point, point.x, jnp.zeros((), jnp.int32))


def snapshot_round(
    method: Snapshotting,
    train: Callable,
    hub: SnapshotHub,
    fed: SaddleFedView,
    server_lr: Scalar,
    server_dual_lr: Scalar,
) -> Round:
    """Local steps of everyone, a step of the hub, at times a new snapshot."""
    changes = yield ask(train, Work(hub.point, hub.snapshot), to=everyone(fed.n))
    change = changes.estimate(fed.weights)
    elapsed = changes.cohort.any() * server_lr * method.lr * method.local_steps
    x = settled(fed, hub.point.x + server_lr * change.x, elapsed, method.regularise)
    y = hub.point.y + server_dual_lr * change.y
    rounds = hub.rounds + 1
    snapshot = jnp.where(rounds % method.snapshot_every == 0, x, hub.snapshot)
    return SnapshotHub(Point(x, y), snapshot, rounds), ()


def train_against(method: Snapshotting, work: Work, f: SaddleOracle, key: Array) -> Point:
    """Tau steps, those in y against the snapshot; returns the change of both blocks."""
    end = descend_ascend(
        f, work.start, key, lr=method.lr, dual_lr=method.dual_lr, steps=method.local_steps,
        regularise=method.regularise, frozen=work.snapshot,
    )  # fmt: skip
    return minus(end, work.start)
