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
class LocalSGDAPlus(Algorithm):
    """Averaging of clients whose duals ascend against a frozen model."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: float = param(positive, "step size of the local steps in x")
    dual_lr: float = param(positive, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    snapshot_every: int = param(at_least(1), "rounds for which the snapshot stays", default=5)
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> SnapshotHub:
        """A fresh point."""
        return first_snapshot(fed, key)

    def round(self, hub: SnapshotHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps of everyone, then the mean, at times a new snapshot."""
        return (yield from snapshot_round(self, self.train, hub, fed, 1.0, 1.0))

    def train(
        self, client: Nothing, work: Work, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Point]:
        """Local steps against the snapshot."""
        return client, train_against(self, work, f, key)

    def model(self, hub: SnapshotHub, fed: SaddleFedView, /) -> Array:
        """The primal block."""
        return hub.point.x
