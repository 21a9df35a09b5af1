"""Local SGDA: averaging for saddle problems.

Deng, Mahdavi, AISTATS 2021; Sharma, Panda, Joshi, Varshney, ICML 2022.

    client i    tau times, both gradients at the old point and on one batch:
                    x_i <- x_i - lr gx_i(x_i, y_i);   y_i <- y_i + dual_lr gy_i(x_i, y_i)
    hub         x <- x + (n/m) sum_S a_i (x_i - x);   y likewise

Unlike clients drift apart within a round, so the limit is off the saddle by an amount that grows
with lr tau and with their differences.

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem.

Differs from the papers: where the problem has a regulariser, the hub applies its proximal map with
step lr tau after averaging, or clients add subgradients (regularise). Partial participation is
not in the papers.
"""

from typing import Any, ClassVar

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    descend_ascend,
    first_point,
    minus,
    plus,
    regularise_param,
    settled,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class LocalSGDA(Algorithm):
    """Averaging of clients that descend in x and ascend in y."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = cohort_param()
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> PrimalDual:
        """A fresh model and a fresh dual."""
        return first_point(fed, key)

    def round(self, hub: PrimalDual, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean."""
        changes = yield ask(self.train, hub, to=uniform(key, fed.n, self.cohort))
        x, y = plus(hub, changes.estimate(fed.weights))
        elapsed = changes.cohort.any() * self.lr * self.local_steps
        return PrimalDual(settled(fed, x, elapsed, self.regularise), y), ()

    def train(
        self, client: tuple[()], start: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[Any, PrimalDual]:
        """Tau simultaneous steps; the reply is the change of both blocks."""
        end = descend_ascend(
            f, start, key, lr=self.lr, dual_lr=self.dual_lr, steps=self.local_steps,
            regularise=self.regularise,
        )  # fmt: skip
        return client, minus(end, start)

    def model(self, hub: PrimalDual, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.x
