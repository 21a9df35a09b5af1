"""Momentum Local SGDA: local descent ascent along averaged directions.

Sharma, Panda, Joshi, Varshney. Federated minimax optimization: improved convergence analyses and
algorithms. ICML 2022, Algorithm 2.

    start       dx = mean gx_i(x, y),  dy = mean gy_i(x, y), on a batch
    client i    tau times, with averaging parameter a:
                    x_i <- x_i - a lr dx_i;   y_i <- y_i + a dual_lr dy_i
                    dx_i <- (1 - bx a) dx_i + bx a gx_i(x_i, y_i), at the new point; dy_i likewise
    hub         averages x, y, dx, dy

Paper            here                     Paper           here
alpha_t          averaging                beta_x, beta_y  momentum, dual_momentum

Differs from the paper: the first directions are averaged over clients as all later ones are. Where
the problem has a regulariser, the hub applies its proximal map with step a lr tau, or clients add
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
class MomentumLocalSGDA(Algorithm):
    """Local SGDA with momentum that is averaged like the models."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size in x")
    dual_lr: StepSize = param(step_size, "step size in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    averaging: float = param(
        positive_fraction, "averaging parameter: the part of a step that is taken", default=1.0
    )
    momentum: float = param(
        positive_fraction, "weight of a new gradient in the direction of x", default=0.5
    )
    dual_momentum: float = param(
        positive_fraction, "weight of a new gradient in the direction of y", default=0.5
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
        elapsed = changes.cohort.any() * (self.averaging * self.lr * self.local_steps)
        return Moving(PrimalDual(settled(fed, x, elapsed, self.regularise), y), direction), ()

    def look(
        self, client: tuple[()], point: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[Any, PrimalDual]:
        """Gradients on a batch."""
        return client, slopes(f, point, key, self.regularise)

    def train(
        self, client: Nothing, start: Moving, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Moving]:
        """Tau steps with momentum; the reply is the change of point and direction."""
        keep = self.averaging * self.momentum, self.averaging * self.dual_momentum

        def step(now: Moving, key: Array) -> Moving:
            (x, y), (dx, dy) = now
            x = x - self.averaging * self.lr * dx
            y = y + self.averaging * self.dual_lr * dy
            gx, gy = slopes(f, PrimalDual(x, y), key, self.regularise)
            direction = PrimalDual(dx + keep[0] * (gx - dx), dy + keep[1] * (gy - dy))
            return Moving(PrimalDual(x, y), direction)

        return client, moving.change(step, start, key, self.local_steps)

    def model(self, hub: Moving, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x
