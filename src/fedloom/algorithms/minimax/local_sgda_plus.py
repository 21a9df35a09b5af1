"""Local SGDA+: local descent ascent against a frozen model, for losses merely concave in y.

Deng, Mahdavi, AISTATS 2021, Algorithm 2.

    client i    tau times, on one batch:  x_i <- x_i - lr gx_i(x_i, y_i)
                                          y_i <- y_i + dual_lr gy_i(xs, y_i)
    hub         x = mean x_i,  y = mean y_i;   every S steps: xs <- x

The dual sees a model xs that stays put, which makes it track a fixed target.

Paper            here
S                snapshot_every * local_steps

Differs from the paper: S is a whole number of rounds, since xs is known to all only when models are
averaged. Where the problem has a regulariser, the hub applies its proximal map with step lr tau, or
clients add subgradients (regularise).
"""

from typing import Any, ClassVar

import jax.numpy as jnp

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    descend_ascend,
    minus,
    plus,
    regularise_param,
    settled,
)
from fedloom.algorithms.minimax.snapshot import SnapshotHub, SnapshotMessage, first_snapshot
from fedloom.cohorts import everyone
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class LocalSGDAPlus(Algorithm):
    """Averaging of clients whose duals ascend against a frozen model."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    snapshot_every: int = param(at_least(1), "number of rounds that a snapshot is kept", default=5)
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> SnapshotHub:
        """A fresh point, whose model is the first snapshot."""
        return first_snapshot(fed, key)

    def round(self, hub: SnapshotHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps of everyone, then the mean, at times a new snapshot."""
        message = SnapshotMessage(hub.point, hub.snapshot)
        changes = yield ask(self.train, message, to=everyone(fed.n))
        x, y = plus(hub.point, changes.estimate(fed.weights))
        elapsed = changes.cohort.any() * self.lr * self.local_steps
        x = settled(fed, x, elapsed, self.regularise)
        rounds = hub.rounds + 1
        snapshot = jnp.where(rounds % self.snapshot_every == 0, x, hub.snapshot)
        return SnapshotHub(PrimalDual(x, y), snapshot, rounds), ()

    def train(
        self, client: tuple[()], message: SnapshotMessage, f: SaddleOracle, key: Array, /
    ) -> tuple[Any, PrimalDual]:
        """Tau steps, those in y against the snapshot; the reply is the change of both blocks."""
        start, snapshot = message
        end = descend_ascend(
            f, start, key, lr=self.lr, dual_lr=self.dual_lr, steps=self.local_steps,
            regularise=self.regularise, frozen=snapshot,
        )  # fmt: skip
        return client, minus(end, start)

    def model(self, hub: SnapshotHub, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x
