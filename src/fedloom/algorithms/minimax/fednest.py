"""FedNest, for saddle problems: inner rounds on the dual, then an outer round on the model.

Tarzanagh, Li, Thrampoulidis, Oymak. FedNest: federated bilevel, minimax and compositional
optimization. ICML 2022.

    inner, T times      q = (n/m) sum_S a_i gy_i(x, y)
                        i in S: y_i = y; tau times on one batch each,
                            y_i <- y_i + (dual_lr / tau) (gy_i(x, y_i) - gy_i(x, y) + q)
                        y <- mean_S y_i
    outer               h = (n/m) sum_S a_i gx_i(x, y)
                        i in S: x_i = x; tau times on one batch each,
                            x_i <- x_i - (lr / tau) (gx_i(x_i, y) - gx_i(x, y) + h)
                        x <- mean_S x_i

Each of these rounds has two contacts, first for the gradient and then for the steps, and a cohort S
of its own. The bilevel method's hypergradient is not needed: its cross terms vanish here.

With a cohort: q and h are unbiased for the gradients of the stated problem. All clients of S move
along them, so the means of y_i and x_i have weights that sum to one. If weights are unequal, these
means are biased in the remaining part, the drift of local steps, which falls with lr and dual_lr.

Differs from the paper: where the problem weighs clients, means carry those weights. Where it has a
regulariser, the hub applies its proximal map with step lr, or clients add subgradients
(regularise). The released program takes steps of lr, not lr / tau.
"""

from typing import ClassVar, NamedTuple

import jax

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    first_point,
    regularise_param,
    settled,
    slopes,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class FedNestClient(NamedTuple):
    """The common point that the client was told last, from which its next steps begin."""

    point: PrimalDual


@algorithm
class FedNest(Algorithm):
    """Alternating, variance-reduced local steps on the dual and on the model."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(
        step_size, "step size in x of an outer round, divided over its local steps"
    )
    dual_lr: StepSize = param(
        step_size, "step size in y of an inner round, divided over its local steps"
    )
    local_steps: int = param(at_least(1), "local steps of an inner or outer round", default=10)
    inner_rounds: int = param(at_least(1), "inner rounds in a round", default=1)
    cohort: int | None = cohort_param()
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> PrimalDual:
        """A fresh model and a fresh dual."""
        return first_point(fed, key)

    def init_client(self, f: SaddleOracle, key: Array, /) -> FedNestClient:
        """Zeros: the common point comes before every use of it."""
        return FedNestClient(PrimalDual(f.zeros(), f.zeros_dual()))

    def round(self, hub: PrimalDual, fed: SaddleFedView, key: Array, /) -> Round:
        """Inner rounds on y, an outer round on x."""
        x, y = hub
        *inner_keys, outer_key = jax.random.split(key, self.inner_rounds + 1)
        for inner_key in inner_keys:
            cohort = uniform(inner_key, fed.n, self.cohort)
            slope = (yield ask(self.dual_slope, PrimalDual(x, y), to=cohort)).estimate(fed.weights)
            changes = yield ask(self.ascend, slope, to=cohort)
            y = y + changes.average(fed.weights)
        cohort = uniform(outer_key, fed.n, self.cohort)
        slope = (yield ask(self.slope, PrimalDual(x, y), to=cohort)).estimate(fed.weights)
        changes = yield ask(self.descend, slope, to=cohort)
        elapsed = changes.cohort.any() * self.lr
        x = settled(fed, x + changes.average(fed.weights), elapsed, self.regularise)
        return PrimalDual(x, y), ()

    def dual_slope(
        self, client: FedNestClient, point: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[FedNestClient, Array]:
        """The gradient in y, on a batch."""
        return FedNestClient(point), slopes(f, point, key, self.regularise).y

    def slope(
        self, client: FedNestClient, point: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[FedNestClient, Array]:
        """The gradient in x, on a batch."""
        return FedNestClient(point), slopes(f, point, key, self.regularise).x

    def ascend(
        self, client: FedNestClient, common: Array, f: SaddleOracle, key: Array, /
    ) -> tuple[FedNestClient, Array]:
        """Corrected steps in y; the reply is the change."""
        x, y = client.point

        def step(own: Array, key: Array) -> Array:
            here = slopes(f, PrimalDual(x, own), key, self.regularise).y
            there = slopes(f, PrimalDual(x, y), key, self.regularise).y
            return own + self.dual_lr / self.local_steps * (here - there + common)

        return client, repeat(step, y, key, self.local_steps) - y

    def descend(
        self, client: FedNestClient, common: Array, f: SaddleOracle, key: Array, /
    ) -> tuple[FedNestClient, Array]:
        """Corrected steps in x; the reply is the change."""
        x, y = client.point

        def step(own: Array, key: Array) -> Array:
            here = slopes(f, PrimalDual(own, y), key, self.regularise).x
            there = slopes(f, PrimalDual(x, y), key, self.regularise).x
            return own - self.lr / self.local_steps * (here - there + common)

        return client, repeat(step, x, key, self.local_steps) - x

    def model(self, hub: PrimalDual, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.x
