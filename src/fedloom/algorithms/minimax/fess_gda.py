"""FESS-GDA: local descent ascent, with the model held near a slow copy of itself.

Shen, Huang, Zhang, Shen. Stochastic smoothed gradient descent ascent for federated minimax
optimization. AISTATS 2024.

    client i    K times, both gradients at the old point and on one batch:
                    x_i <- x_i - lr gx_i(x_i, y_i);   y_i <- y_i + dual_lr gy_i(x_i, y_i)
    hub         x <- x + server_lr ((n/m) sum_S a_i (x_i - x) - lr K smoothing (x - z))
                y <- y + server_dual_lr (n/m) sum_S a_i (y_i - y)
                z <- z + tracking (x - z), at the new x

The hub descends on f(x, y) + (smoothing / 2) |x - z|^2, which for smoothing above the weak
convexity of f is strongly convex in x, and z follows x. So x cannot run away from the dual that
shall answer it, and one set of steps serves problems that are merely concave in y. Where x rests, z
is x and the term is gone: the limit is Local SGDA's, with its drift. A round sends what one of
Local SGDA does.

Paper            here                     Paper                 here
p, beta          smoothing, tracking      eta_x,l, eta_y,l      lr, dual_lr
z_t              SmoothedHub.slow         eta_x,g, eta_y,g      server_lr, server_dual_lr

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem. A round without replies changes nothing.

Differs from the paper: y is not projected, since the duals of the problems here are unconstrained.
Where the problem has a regulariser, the hub applies its proximal map with step server_lr lr K, or
clients add subgradients (regularise). The listing is written from the updates that the paper is
cited for; the theory takes smoothing = 2 L.
"""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    descend_ascend,
    first_point,
    minus,
    regularise_param,
    settled,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, at_least_zero, param, positive_fraction
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class SmoothedHub(NamedTuple):
    """The global point, and the copy of its model that follows slowly."""

    point: PrimalDual
    slow: Array  # z


@algorithm
class FESSGDA(Algorithm):
    """Averaging of clients that descend and ascend, on a smoothed problem."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    smoothing: float = param(
        at_least_zero, "weight of the distance to the slow copy of the model", default=1.0
    )
    tracking: float = param(
        positive_fraction,
        "part of the distance to the model that the slow copy moves in a round",
        default=0.5,
    )
    server_lr: StepSize = param(step_size, "step size of the hub in x", default=1.0)
    server_dual_lr: StepSize = param(step_size, "step size of the hub in y", default=1.0)
    cohort: int | None = cohort_param()
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> SmoothedHub:
        """A fresh point, and its model as the slow copy."""
        point = first_point(fed, key)
        return SmoothedHub(point, point.x)

    def round(self, hub: SmoothedHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps at a cohort, a step of the hub with the pull, and the copy follows."""
        (x, y), slow = hub
        changes = yield ask(self.train, hub.point, to=uniform(key, fed.n, self.cohort))
        change, heard = changes.estimate(fed.weights), changes.cohort.any()
        elapsed = heard * self.server_lr * self.lr * self.local_steps
        x = x + self.server_lr * change.x - elapsed * self.smoothing * (x - slow)
        x = settled(fed, x, elapsed, self.regularise)
        y = y + self.server_dual_lr * change.y
        slow = slow + jnp.where(heard, self.tracking, 0) * (x - slow)
        return SmoothedHub(PrimalDual(x, y), slow), ()

    def train(
        self, client: tuple[()], start: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[Any, PrimalDual]:
        """K simultaneous steps; the reply is the change of both blocks."""
        end = descend_ascend(
            f, start, key, lr=self.lr, dual_lr=self.dual_lr, steps=self.local_steps,
            regularise=self.regularise,
        )  # fmt: skip
        return client, minus(end, start)

    def model(self, hub: SmoothedHub, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x
