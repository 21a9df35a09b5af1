"""FedSGDA-M: local descent ascent with recursive momentum.

Wu, Sun, Hu, Liu, Zhang, Huang. Solving a class of non-convex minimax optimization in federated
learning. NeurIPS 2023.

    start       v = mean gx_i(x, y),  u = mean gy_i(x, y), over all rows
    client i    tau times:
                    x+ = x_i - lr v_i;   y+ = y_i + dual_lr u_i
                    v_i <- gx_i(x+, y+) + (1 - a) (v_i - gx_i(x_i, y_i)),  on one batch
                    u_i <- gy_i(x+, y+) + (1 - b) (u_i - gy_i(x_i, y_i)),  on the same
    hub         averages x, y, v, u

With a = b = 1 the directions are plain gradients at the new point.

Paper            here                     Paper           here
eta gamma        lr                       alpha, beta     momentum, dual_momentum
eta lambda       dual_lr                  Q               local_steps

Differs from the paper: the first directions use all rows, where it says a large batch. Where the
problem has a regulariser, the hub applies its proximal map with step lr tau, or clients add
subgradients (regularise).
"""

from typing import Any, ClassVar

from fedloom.algorithms.minimax import moving
from fedloom.algorithms.minimax.moving import Moving
from fedloom.algorithms.minimax.point import PrimalDual, regularise_param, settled, slopes
from fedloom.cohorts import everyone
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, param, positive_fraction
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


@algorithm
class FedSGDAM(Algorithm):
    """Local SGDA with variance-reduced directions."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size in x")
    dual_lr: StepSize = param(step_size, "step size in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    momentum: float = param(positive_fraction, "weight of the fresh gradient in x", default=0.1)
    dual_momentum: float = param(
        positive_fraction, "weight of the fresh gradient in y", default=0.1
    )
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> Moving:
        """A fresh point; the opening finds the first directions."""
        return moving.at_rest(fed, key)

    def opening(self, hub: Moving, fed: SaddleFedView, key: Array, /) -> Round:
        """The mean of the clients' first gradients as the first directions."""
        gradients = yield ask(self.look, hub.point, to=everyone(fed.n))
        return Moving(hub.point, gradients.estimate(fed.weights)), ()

    def round(self, hub: Moving, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps of everyone, then the mean of points and directions."""
        changes = yield ask(self.train, hub, to=everyone(fed.n))
        (x, y), direction = moving.added(hub, changes.estimate(fed.weights))
        elapsed = changes.cohort.any() * (self.lr * self.local_steps)
        return Moving(PrimalDual(settled(fed, x, elapsed, self.regularise), y), direction), ()

    def look(
        self, client: tuple[()], point: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[Any, PrimalDual]:
        """Gradients over all rows."""
        gx, gy = f.full_grads(*point)
        if self.regularise == "subgradient":
            gx = gx + f.subgradient(point.x)
        return client, PrimalDual(gx, gy)

    def train(
        self, client: Nothing, start: Moving, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Moving]:
        """Tau steps with recursive momentum; the reply is the change of point and direction."""

        def step(now: Moving, key: Array) -> Moving:
            old, (v, u) = now
            new = PrimalDual(old.x - self.lr * v, old.y + self.dual_lr * u)
            here = slopes(f, new, key, self.regularise)
            there = slopes(f, old, key, self.regularise)
            direction = PrimalDual(
                here.x + (1 - self.momentum) * (v - there.x),
                here.y + (1 - self.dual_momentum) * (u - there.y),
            )
            return Moving(new, direction)

        return client, moving.change(step, start, key, self.local_steps)

    def model(self, hub: Moving, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x
