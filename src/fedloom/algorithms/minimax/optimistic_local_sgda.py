"""Optimistic Local SGDA: local descent ascent along twice the gradient less the one before.

Local SGDA (Deng, Mahdavi, AISTATS 2021) with the steps of Popov 1980, in the form of Daskalakis,
Ilyas, Syrgkanis, Zeng, ICLR 2018.

    client i    tau times, both gradients at the old point and on one batch; h are those before:
                    x_i <- x_i - lr (2 gx_i - hx_i);   y_i <- y_i + dual_lr (2 gy_i - hy_i)
    hub         x <- x + (n/m) sum_S a_i (x_i - x);   y likewise

Descent ascent turns around a saddle at which x and y only trade, and needs strong convexity and
concavity to arrive; the guess of where the gradient goes next takes the turning away. A step costs
one gradient, and a round sends what one of Local SGDA does and its number: a client keeps its last
gradients from one round to the next. Who missed the round before begins with a plain step, h = g,
since what it has kept is not of the step before. With everyone, tau = 1 and full gradients it is
the optimistic method on the mean; unlike clients drift apart within a round as in Local SGDA.

With a cohort: with short steps the limit is the solution of the stated problem wherever Local SGDA
reaches it. For saddles at which x and y only trade, most steps must be optimistic, and a client
that was away begins with a plain one: that takes three or more local steps, or a cohort of more
than half. With one local step and fewer clients the method diverges there for every lr.

Differs from the papers: none of them has local steps and optimism together. What a client remembers
across rounds, and that it forgets when it is away, were chosen here. Where the problem has a
regulariser, the hub applies its proximal map with step lr tau after averaging, or clients add
subgradients (regularise).
"""

from typing import ClassVar, NamedTuple

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
from fedloom.parameters import at_least, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class OptimisticSGDAHub(NamedTuple):
    """The global point and the number of rounds, which also make up the message."""

    point: PrimalDual
    rounds: Array


class OptimisticSGDAClient(NamedTuple):
    """The client's last gradients, and the round in which they are of the step before."""

    slope: PrimalDual
    fresh: Array


class _OptimisticStep(NamedTuple):
    """Where a client is within its local steps."""

    point: PrimalDual
    before: PrimalDual  # the gradients of the step before
    known: Array  # whether there was one


@algorithm
class OptimisticLocalSGDA(Algorithm):
    """Averaging of clients whose steps guess where the gradient goes next."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps in x")
    dual_lr: StepSize = param(step_size, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = cohort_param()
    regularise: str = regularise_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> OptimisticSGDAHub:
        """A fresh model and a fresh dual."""
        return OptimisticSGDAHub(first_point(fed, key), jnp.zeros((), jnp.int32))

    def init_client(self, f: SaddleOracle, key: Array, /) -> OptimisticSGDAClient:
        """Nothing remembered: no round has the number -1."""
        nothing = PrimalDual(f.zeros(), f.zeros_dual())
        return OptimisticSGDAClient(nothing, jnp.asarray(-1, jnp.int32))

    def round(self, hub: OptimisticSGDAHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean."""
        changes = yield ask(self.train, hub, to=uniform(key, fed.n, self.cohort))
        x, y = plus(hub.point, changes.estimate(fed.weights))
        elapsed = changes.cohort.any() * self.lr * self.local_steps
        point = PrimalDual(settled(fed, x, elapsed, self.regularise), y)
        return OptimisticSGDAHub(point, hub.rounds + 1), ()

    def train(
        self, client: OptimisticSGDAClient, hub: OptimisticSGDAHub, f: SaddleOracle, key: Array, /
    ) -> tuple[OptimisticSGDAClient, PrimalDual]:
        """Tau optimistic steps; the reply is the change of both blocks."""

        def step(now: _OptimisticStep, key: Array) -> _OptimisticStep:
            slope = slopes(f, now.point, key, self.regularise)
            guess = jax.tree.map(lambda g, h: g + jnp.where(now.known, g - h, 0), slope, now.before)
            x = now.point.x - self.lr * guess.x
            y = now.point.y + self.dual_lr * guess.y
            return _OptimisticStep(PrimalDual(x, y), slope, jnp.array(True))

        first = _OptimisticStep(hub.point, client.slope, client.fresh == hub.rounds)
        last = repeat(step, first, key, self.local_steps)
        return OptimisticSGDAClient(last.before, hub.rounds + 1), minus(last.point, hub.point)

    def model(self, hub: OptimisticSGDAHub, fed: SaddleFedView, /) -> Array:
        """The primal block x; the dual is of use in training only."""
        return hub.point.x
