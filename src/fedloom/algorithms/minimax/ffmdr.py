"""FFMDR: a fast federated minimax method by Douglas-Rachford splitting, with separate duals.

A fast federated method for minimax problems with sequential convergence guarantees, Algorithm 1.

    start       x_i = w_i = zt_i = z0,  y_i = y0, for every client
    hub         z = prox_{beta g}(sum_i a_i zt_i),  sent to those that take part
    client i    x_i <- x_i + z - w_i
                (w_i, y_i) ~ the saddle of  f_i(w, y) + |w - x_i|^2 / (2 beta),  from the last one
                zt_i <- 2 w_i - x_i,  sends the change
    absent      x_i, w_i, y_i, zt_i stay, and zt_i keeps its part in the mean

The dual y_i never leaves its client. So this solves SEP, the problem in which every client has a
dual of its own; FFMDRConsensus solves SH. A local solution is good enough when the test of
`resolvent.py` holds, or after the solver's cap.

With a cohort or attendance: the hub's mean is over all clients, with the last reply of each, so the
fixed points are those of full participation, whoever takes part and however often.

Paper            here                     Paper           here
beta             beta                     eps_w           solver.accuracy
p_i              attendance               z               prox of FFMDRHub.mean

Differs from the paper: it prints prox_{beta/n g}, with which the fixed points are those of
sum_i F_i / n + g / n; prox_{beta g} gives the weight of g that was asked for (server_prox =
"beta/n" is the paper's). Client functions are means over rows, not sums. Where the problem weighs
clients by size, the mean carries those weights. The reply has one number more, the iterations
that the local solver spent, as a diagnostic.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.minimax.inner import Solver
from fedloom.algorithms.minimax.point import (
    PrimalDual,
    attendance_param,
    check_participation,
    taking_part,
)
from fedloom.algorithms.minimax.resolvent import Resolvent
from fedloom.cohorts import cohort_param, everyone
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import instance_of, one_of, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Tree


class FFMDRHub(NamedTuple):
    """The mean of all clients' reflected points, of which the model is the proximal map."""

    mean: Array


class FFMDRClient(NamedTuple):
    """A client's centre x_i, its point w_i and its dual y_i."""

    centre: Array
    point: Array
    dual: Array


class FFMDRReply(NamedTuple):
    """How a client's reflected point changed, and what that cost."""

    change: Tree
    iterations: Array


class Effort(NamedTuple):
    """The iterations that each client's solver spent in this round; 0 where it was absent."""

    iterations: Array


@algorithm
class FFMDR(Algorithm):
    """Douglas-Rachford splitting for saddle problems, each client with a dual of its own."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True
    dual: ClassVar[str] = "separate"

    beta: float = param(positive, "parameter of the proximal maps of f_i and g")
    solver: Solver = param(instance_of(Solver), "how a client solves its local saddle problem")
    cohort: int | None = cohort_param()
    attendance: float | tuple[float, ...] | None = attendance_param()
    server_prox: str = param(
        one_of("beta", "beta/n"), "step of the hub's proximal map; the paper's is beta/n",
        default="beta",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_participation("FFMDR", self.cohort, self.attendance)

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> FFMDRHub:
        """A fresh model, which the opening sends to everyone."""
        return FFMDRHub(fed.init_model(key))

    def init_client(self, f: SaddleOracle, key: Array, /) -> FFMDRClient:
        """Zeros, which the opening replaces by the common start."""
        return FFMDRClient(f.zeros(), f.zeros(), f.zeros_dual())

    def opening(self, hub: FFMDRHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Everyone learns the common start."""
        yield ask(self.begin, PrimalDual(hub.mean, fed.init_dual(key)), to=everyone(fed.n))
        return hub, ()

    def round(self, hub: FFMDRHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Some clients move; of the others, the last reflected points stay in the mean."""
        cohort = taking_part(key, fed.n, self.cohort, self.attendance)
        replies = yield ask(self.move, self.model(hub, fed), to=cohort)
        mean = hub.mean + replies.sum(fed.weights).change
        return FFMDRHub(mean), Effort(replies.scatter(fed.n).iterations)

    def begin(
        self, client: FFMDRClient, start: PrimalDual, f: SaddleOracle, key: Array, /
    ) -> tuple[FFMDRClient, tuple[()]]:
        """Centre and point at the common start."""
        return FFMDRClient(start.x, start.x, start.y), ()

    def move(
        self, client: FFMDRClient, model: Array, f: SaddleOracle, key: Array, /
    ) -> tuple[FFMDRClient, FFMDRReply]:
        """A new centre, the saddle near it, and the change of the reflected point."""
        centre = client.centre + model - client.point
        pull = PrimalDual(jnp.asarray(1 / self.beta), jnp.asarray(0.0))  # the dual is free
        r = Resolvent(f, PrimalDual(centre, client.dual), pull)
        (w, y), iterations = self.solver.solve(r, PrimalDual(client.point, client.dual), key)
        change = 2 * (w - client.point) - (centre - client.centre)
        return FFMDRClient(centre, w, y), FFMDRReply(change, iterations)

    def model(self, hub: FFMDRHub, fed: SaddleFedView, /) -> Array:
        """The proximal map of the mean."""
        step = self.beta if self.server_prox == "beta" else self.beta / fed.n
        return fed.prox(hub.mean, step)
