"""What Local SGDA+ and FedSGDA+ keep and send: a model that stays put for some rounds."""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.minimax.point import PrimalDual, first_point
from fedloom.oracles import SaddleFedView
from fedloom.types import Array


class SnapshotHub(NamedTuple):
    """The global point, the model that the dual sees, and how many rounds are done."""

    point: PrimalDual
    snapshot: Array  # xs
    rounds: Array


class SnapshotMessage(NamedTuple):
    """Where a client begins, and the model that its dual sees."""

    start: PrimalDual
    snapshot: Array


def first_snapshot(fed: SaddleFedView, key: Array) -> SnapshotHub:
    """A fresh point, and its model as the snapshot."""
    point = first_point(fed, key)
    return SnapshotHub(point, point.x, jnp.zeros((), jnp.int32))
