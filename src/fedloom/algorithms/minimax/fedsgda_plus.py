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

from typing import ClassVar

from fedloom.algorithms.minimax.point import Point, regularise_param
from fedloom.algorithms.minimax.snapshot import (
    SnapshotHub,
    Work,
    first_snapshot,
    snapshot_round,
    train_against,
)
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm
from fedloom.types import Array, Nothing


@algorithm
class FedSGDAPlus(Algorithm):
    """Local SGDA+ with steps of the hub."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: float = param(positive, "step size of the local steps in x")
    dual_lr: float = param(positive, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    snapshot_every: int = param(at_least(1), "rounds for which the snapshot stays", default=1)
    server_lr: float = param(positive, "step size of the hub in x", default=1.0)
    server_dual_lr: float = param(positive, "step size of the hub in y", default=1.0)
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> SnapshotHub:
        """A fresh point."""
        return first_snapshot(fed, key)

    def round(self, hub: SnapshotHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps of everyone, a step of the hub, at times a new snapshot."""
        rates = (self.server_lr, self.server_dual_lr)
        return (yield from snapshot_round(self, self.train, hub, fed, *rates))

    def train(
        self, client: Nothing, work: Work, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Point]:
        """Local steps against the snapshot."""
        return client, train_against(self, work, f, key)

    def model(self, hub: SnapshotHub, fed: SaddleFedView, /) -> Array:
        """The primal block."""
        return hub.point.x
