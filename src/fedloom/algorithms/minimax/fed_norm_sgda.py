"""Fed-Norm-SGDA: descent ascent of clients with unequal numbers of steps, made consistent.

Sharma, Panda, Joshi. Federated minimax optimization with client heterogeneity. TMLR 2023.

    client i    tau_i times, both gradients at the old point and on one batch:
                    x_i <- x_i - lr gx_i(x_i, y_i);   y_i <- y_i + dual_lr gy_i(x_i, y_i)
                sends  Gx_i = (x - x_i) / (lr tau_i),  Gy_i = (y_i - y) / (dual_lr tau_i)
    hub         x <- x - te server_lr sum_S (n/|S|) a_i Gx_i
                y <- y + te server_dual_lr sum_S (n/|S|) a_i Gy_i

Plain averaging of unequal numbers of steps would solve the problem with weights a_i tau_i; the
normalised directions keep the weights that the problem states.

te is the mean of tau_i over all n clients, whoever takes part, so that with equal tau and full
participation this is Local SGDA. Any constant would do. A mean over the cohort would not: it is
large in the rounds of those who take many steps, and brings back the weights a_i tau_i. Where the
tau_i differ, the hub asks for them once, in the opening: a number from each client, of which it
needs the sum only.

With a cohort: averaged over the draws, the hub's step is that of full participation, so the limit
is the solution of the stated problem, up to the drift of local steps and noise, which both fall
with the step sizes.

Differs from the paper: tau_i = "5 epochs" is five passes over the client's own rows. Where the
problem has a regulariser, the hub applies its proximal map with step te server_lr, or clients add
subgradients (regularise).
"""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    descend_ascend,
    first_point,
    regularise_param,
    settled,
)
from fedloom.cohorts import cohort_param, everyone, uniform
from fedloom.local import steps_of, steps_rule
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class FedNormHub(NamedTuple):
    """The global point, and te, the mean number of steps over all clients."""

    point: PrimalDual
    steps: Array


@algorithm
class FedNormSGDA(Algorithm):
    """Normalised averaging for saddle problems: unequal local work, the same problem."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int | str = param(steps_rule, "local steps a round", default="1 epoch")
    server_lr: StepSize | None = param(
        step_size.or_none("lr"), "step size of the hub in x", default=None
    )
    server_dual_lr: StepSize | None = param(
        step_size.or_none("dual_lr"), "step size of the hub in y", default=None
    )
    cohort: int | None = cohort_param()
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> FedNormHub:
        """A fresh point; steps that are the same for all need not be asked for."""
        point = first_point(fed, key)
        known = self.local_steps if isinstance(self.local_steps, int) else 1
        return FedNormHub(point, jnp.asarray(known, point.x.dtype))

    def opening(self, hub: FedNormHub, fed: SaddleFedView, key: Array, /) -> Round:
        """The mean number of steps of all clients, where they differ."""
        if isinstance(self.local_steps, int):
            return hub, ()
        steps = (yield ask(self.count, (), to=everyone(fed.n))).mean()
        # Nobody takes less than a step, whatever noise or loss there is on the way.
        return hub._replace(steps=jnp.maximum(steps, 1)), ()

    def count(
        self, client: Nothing, message: Nothing, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """How many steps this client takes in a round."""
        return client, jnp.asarray(steps_of(self.local_steps, f), f.layout.dtype)

    def round(self, hub: FedNormHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Normalised directions of a cohort, then a step of the hub."""
        replies = yield ask(self.train, hub.point, to=uniform(key, fed.n, self.cohort))
        direction = replies.estimate(fed.weights)
        steps = replies.cohort.any() * hub.steps
        x_step = steps * (self.lr if self.server_lr is None else self.server_lr)
        y_step = steps * (self.dual_lr if self.server_dual_lr is None else self.server_dual_lr)
        x, y = hub.point.x - x_step * direction.x, hub.point.y + y_step * direction.y
        return hub._replace(point=PrimalDual(settled(fed, x, x_step, self.regularise), y)), ()

    def train(
        self, client: tuple[()], start: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[Any, PrimalDual]:
        """As many steps as this client takes; the reply is the mean gradient along the way."""
        steps = steps_of(self.local_steps, f)
        end = descend_ascend(
            f, start, key, lr=self.lr, dual_lr=self.dual_lr, steps=steps,
            regularise=self.regularise,
        )  # fmt: skip
        x = (start.x - end.x) / (self.lr * steps)
        y = (end.y - start.y) / (self.dual_lr * steps)
        return client, PrimalDual(x, y)

    def model(self, hub: FedNormHub, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x
