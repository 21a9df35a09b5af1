"""FedSGDA+: local descent ascent against a frozen model, with a step of the hub.

Wu, Sun, Hu, Liu, Zhang, Huang. Solving a class of non-convex minimax optimization in federated
learning. NeurIPS 2023.

    client i    tau times, on one batch:  x_i <- x_i - lr gx_i(x_i, y_i)
                                          y_i <- y_i + dual_lr gy_i(xs, y_i)
    hub         x <- x + server_lr mean (x_i - x),   y <- y + server_dual_lr mean (y_i - y)
                every snapshot_every rounds: xs <- x

Differs from the paper: where the problem has a regulariser, the hub applies its proximal map with
step server_lr lr tau, or clients add subgradients (regularise).
"""

from typing import Any, ClassVar

import jax.numpy as jnp

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    descend_ascend,
    minus,
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
class FedSGDAPlus(Algorithm):
    """Local SGDA+ with steps of the hub."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    snapshot_every: int = param(at_least(1), "number of rounds that a snapshot is kept", default=1)
    server_lr: StepSize = param(step_size, "step size of the hub in x", default=1.0)
    server_dual_lr: StepSize = param(step_size, "step size of the hub in y", default=1.0)
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> SnapshotHub:
        """A fresh point, whose model is the first snapshot."""
        return first_snapshot(fed, key)

    def round(self, hub: SnapshotHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps of everyone, a step of the hub, at times a new snapshot."""
        message = SnapshotMessage(hub.point, hub.snapshot)
        changes = yield ask(self.train, message, to=everyone(fed.n))
        change = changes.estimate(fed.weights)
        x = hub.point.x + self.server_lr * change.x
        y = hub.point.y + self.server_dual_lr * change.y
        elapsed = changes.cohort.any() * self.server_lr * self.lr * self.local_steps
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
