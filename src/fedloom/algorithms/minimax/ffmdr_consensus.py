"""FFMDRConsensus: Douglas-Rachford splitting for saddle problems with a shared dual.

FFMDR, with its resolvent and its consensus on both blocks: an extension that solves SH.

    start       x_i = w_i = zt_i = z0,  e_i = y_i = yt_i = y0, for every client
    hub         z = prox_{beta g}(sum_i a_i zt_i),  v = sum_i a_i yt_i,  to those that take part
    client i    x_i <- x_i + z - w_i;   e_i <- e_i + v - y_i
                (w_i, y_i) ~ saddle of  f_i(w, y) + |w - x_i|^2 / (2 beta)
                                                  - |y - e_i|^2 / (2 dual_beta)
                zt_i <- 2 w_i - x_i;  yt_i <- 2 y_i - e_i;  sends both changes

This is the splitting of two monotone operators, (grad_x f, -grad_y f) and the subdifferential of g
with consensus, in a metric that scales the two blocks by beta and dual_beta; a dual_beta far below
beta can save most of the rounds. It is sound where f_i is convex in x and concave in y, as AUC with
linear scores is.

Differs from the paper: in FFMDR the dual stays with the client, and what is solved is SEP. As in
FFMDR, absent clients keep contributing, so that fixed points do not depend on who takes part, means
carry the problem's weights, and a reply tells the iterations that the local solver spent.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.minimax.ffmdr import Effort, FFMDRReply
from fedloom.algorithms.minimax.inner import Solver
from fedloom.algorithms.minimax.point import (
    PrimalDual,
    attendance_param,
    check_participation,
    first_point,
    minus,
    plus,
    taking_part,
)
from fedloom.algorithms.minimax.resolvent import Resolvent
from fedloom.cohorts import cohort_param, everyone
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import instance_of, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class ConsensusHub(NamedTuple):
    """The mean of all clients' reflected points."""

    mean: PrimalDual


class ConsensusClient(NamedTuple):
    """A client's centre (x_i, e_i) and its point (w_i, y_i)."""

    centre: PrimalDual
    point: PrimalDual


@algorithm
class FFMDRConsensus(Algorithm):
    """Douglas-Rachford splitting for saddle problems, one dual for all."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    beta: float = param(positive, "parameter of the proximal maps of f_i and g")
    solver: Solver = param(instance_of(Solver), "how a client solves its local saddle problem")
    dual_beta: float | None = param(
        positive.or_none("beta"), "parameter of the proximal map in the dual block", default=None
    )
    cohort: int | None = cohort_param()
    attendance: float | tuple[float, ...] | None = attendance_param()

    def __post_init__(self) -> None:
        check_participation("FFMDRConsensus", self.cohort, self.attendance)

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> ConsensusHub:
        """A fresh point, which the opening sends to everyone."""
        return ConsensusHub(first_point(fed, key))

    def init_client(self, f: SaddleOracle, key: Array, /) -> ConsensusClient:
        """Zeros, which the opening replaces by the common start."""
        nothing = PrimalDual(f.zeros(), f.zeros_dual())
        return ConsensusClient(nothing, nothing)

    def opening(self, hub: ConsensusHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Everyone learns the common start."""
        yield ask(self.begin, hub.mean, to=everyone(fed.n))
        return hub, ()

    def round(self, hub: ConsensusHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Some clients move; of the others, the last reflected points stay in the mean."""
        cohort = taking_part(key, fed.n, self.cohort, self.attendance)
        common = PrimalDual(self.model(hub, fed), hub.mean.y)
        replies = yield ask(self.move, common, to=cohort)
        mean = plus(hub.mean, replies.sum(fed.weights).change)
        return ConsensusHub(mean), Effort(replies.scatter(fed.n).iterations)

    def begin(
        self, client: ConsensusClient, start: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[ConsensusClient, tuple[()]]:
        """Centre and point at the common start."""
        return ConsensusClient(start, start), ()

    def move(
        self, client: ConsensusClient, common: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[ConsensusClient, FFMDRReply]:
        """A new centre, the saddle near it, and the change of the reflected point."""
        centre = plus(client.centre, minus(common, client.point))
        dual_beta = self.beta if self.dual_beta is None else self.dual_beta
        pull = PrimalDual(jnp.asarray(1 / self.beta), jnp.asarray(1 / dual_beta))
        r = Resolvent(f, centre, pull)
        point, iterations = self.solver.solve(r, client.point, key)
        reflected = minus(plus(point, point), centre)
        before = minus(plus(client.point, client.point), client.centre)
        return ConsensusClient(centre, point), FFMDRReply(minus(reflected, before), iterations)

    def model(self, hub: ConsensusHub, fed: SaddleFedView, /) -> Array:
        """The proximal map of the mean's primal block."""
        return fed.prox(hub.mean.x, self.beta)
