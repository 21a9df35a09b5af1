"""CODASCA: descent ascent with control variates, in proximal stages.

Yuan, Guo, Xu, Ying, Yang. Federated deep AUC maximization for heterogeneous data with a constant
communication complexity. ICML 2021.

    stage s     lr_s = lr / shrink^s;  x_ref = mean of the iterates of the stage before (first: x0)
    client i    I times from (x, y), both gradients at the old point and on one batch:
                    x_i <- x_i - lr_s (gx_i(x_i, y_i) + (x_i - x_ref) / gamma - cx_i + cx)
                    y_i <- y_i + lr_s (gy_i(x_i, y_i) - cy_i + cy)
                c_i <- the means of the I gradients gx_i and gy_i along the way
    hub         x <- x + server_lr (n/m) sum_S a_i (x_i - x);   y likewise;   c = sum_i a_i c_i

The control variates cancel what unlike clients would drift. Stated for AUC, it takes any saddle
problem.

Paper            here                     Paper           here
I                local_steps              T_s             stage_rounds * local_steps
1/gamma          1 / gamma                eta_g           server_lr

Differs from the paper: dual_lr may differ from lr. The dual takes its true stochastic gradient;
the released program takes the population form of AUC and clamps alpha. Where the problem has a
regulariser, the hub applies its proximal map with step server_lr lr_s I, or clients add
subgradients (regularise). With the map clients still move within a round when the hub does not, so
the limit is off by an amount proportional to lr_s I; stages take it away. With subgradients it is
off by about one local step, but no coefficient is ever exactly zero. Partial participation, not in
the paper, is SCAFFOLD's: absent clients keep their c_i, c stays the mean of all of them, and the
mean over the draws of a cohort is the step of full participation, so that its limit stays too.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.algorithms.minimax.point import (
    PrimalDual,
    first_point,
    minus,
    plus,
    regularise_param,
    settled,
    slopes,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import Rule, at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array

_shrink = Rule(lambda v: positive.holds(v) and v >= 1, "a number >= 1", 3.0)


class CodascaHub(NamedTuple):
    """The global point, the mean control variate, and where the stage stands."""

    point: PrimalDual
    control: PrimalDual
    reference: Array  # x_ref
    passed: Array  # the sum of the stage's iterates
    rounds: Array  # how many rounds are done, over all stages


class CodascaClient(NamedTuple):
    """What the client's gradients are expected to be."""

    control: PrimalDual


class CodascaMessage(NamedTuple):
    """Where a client begins, the mean control variate, and what it needs to know of the stage."""

    start: PrimalDual
    control: PrimalDual
    reference: Any  # x_ref; nothing where there is no pull
    rate: Any  # what the step sizes are multiplied by; nothing where that is 1


class CodascaReply(NamedTuple):
    """How the client's point and control variate changed."""

    change: PrimalDual
    control_change: PrimalDual


@algorithm
class CODASCA(Algorithm):
    """Communication-efficient saddle optimisation for unlike clients."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    gamma: float | None = param(
        positive.or_none("no proximal term"),
        "the proximal term of a stage has the weight 1 / gamma", default=None,
    )  # fmt: skip
    stage_rounds: int | None = param(
        at_least(1).or_none("a single stage"), "rounds of a stage", default=None
    )
    shrink: float = param(
        _shrink, "step sizes are divided by this from stage to stage", default=3.0
    )
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    cohort: int | None = cohort_param()
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> CodascaHub:
        """A fresh point, and zero control."""
        point = first_point(fed, key)
        zero = jax.tree.map(jnp.zeros_like, point)
        return CodascaHub(point, zero, point.x, zero.x, jnp.zeros((), jnp.int32))

    def init_client(self, f: SaddleOracle, key: Array, /) -> CodascaClient:
        """Zero control, so that the mean over clients is the hub's."""
        return CodascaClient(PrimalDual(f.zeros(), f.zeros_dual()))

    def round(self, hub: CodascaHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Corrected local steps at a cohort, then both means; at times a new stage."""
        reference = () if self.gamma is None else hub.reference
        rate = () if self.stage_rounds is None else self._rate(hub)
        message = CodascaMessage(hub.point, hub.control, reference, rate)
        replies = yield ask(self.train, message, to=uniform(key, fed.n, self.cohort))
        x, y = plus(hub.point, replies.estimate(fed.weights).change, self.server_lr)
        elapsed = self.server_lr * self._rate(hub) * self.lr * self.local_steps
        elapsed = replies.cohort.any() * elapsed
        point = PrimalDual(settled(fed, x, elapsed, self.regularise), y)
        control = plus(hub.control, replies.sum(fed.weights).control_change)
        return self._next_stage(hub, point, control), ()

    def train(
        self, client: CodascaClient, message: CodascaMessage, f: SaddleOracle, key: Array, /
    ) -> tuple[CodascaClient, CodascaReply]:
        """Corrected steps, then a new control variate."""
        correction = minus(message.control, client.control)
        rate = 1.0 if self.stage_rounds is None else message.rate

        def step(inner: tuple[PrimalDual, PrimalDual], key: Array) -> tuple[PrimalDual, PrimalDual]:
            (x, y), total = inner
            slope = slopes(f, PrimalDual(x, y), key, self.regularise)
            downhill, uphill = slope.x + correction.x, slope.y + correction.y
            if self.gamma is not None:
                downhill = downhill + (x - message.reference) / self.gamma
            moved = PrimalDual(x - rate * self.lr * downhill, y + rate * self.dual_lr * uphill)
            return moved, plus(total, slope)

        nothing = jax.tree.map(jnp.zeros_like, message.start)
        end, total = repeat(step, (message.start, nothing), key, self.local_steps)
        control = jax.tree.map(lambda t: t / self.local_steps, total)
        changes = CodascaReply(minus(end, message.start), minus(control, client.control))
        return CodascaClient(control), changes

    def model(self, hub: CodascaHub, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x

    def _rate(self, hub: CodascaHub) -> Array:
        stage = 0 if self.stage_rounds is None else hub.rounds // self.stage_rounds
        return jnp.asarray(self.shrink, hub.point.x.dtype) ** -stage

    def _next_stage(self, hub: CodascaHub, point: PrimalDual, control: PrimalDual) -> CodascaHub:
        rounds, passed = hub.rounds + 1, hub.passed + point.x
        if self.stage_rounds is None:
            return CodascaHub(point, control, hub.reference, passed, rounds)
        ends = rounds % self.stage_rounds == 0
        reference = jnp.where(ends, passed / self.stage_rounds, hub.reference)
        passed = jnp.where(ends, jnp.zeros_like(passed), passed)
        return CodascaHub(point, control, reference, passed, rounds)
