"""DRFA: distributionally robust federated averaging.

Deng, Kamani, Mahdavi. NeurIPS 2020, Algorithm 1.

    min_{w in W}  max_{lambda in the simplex}  sum_i lambda_i f_i(w)

    hub         D of m clients drawn by lambda, with replacement;  t' uniform on 1 .. K, one draw
    i in D      K times:  w_i <- P_W(w_i - lr g_i(w_i));  sends w_i and its snapshot after t' steps
    hub         w <- mean_D w_i,   w' <- mean_D snapshots;  U of m clients uniformly without
                replacement, independent of D
    i in U      sends f_i(w') on one batch
    hub         v_i = (n / m) f_i(w') for i in U, else 0
                lambda <- P_simplex(lambda + weight_lr K v)

Over t' and U, the mean of K v is the sum of all clients' losses along the K steps: one small
exchange a round does for lambda what AFL does with an exchange a step.

With a cohort: both exchanges are unbiased, so with short steps the limit is that of full
participation. If replies are lost, m in n / m is the number that arrived.

Paper            here                     Paper           here
tau, eta         local_steps, lr          gamma           weight_lr
w_bar, lambda    MixtureHub               m, N            cohort, fed.n

The paper's answer averages all local iterates. The mean of the snapshots w' over the rounds has the
same expectation and costs no message; it is reported as `average`, beside the last model.

Differs from the paper: the appendix prints v without n / m, without which the mean above is wrong.
Changes are sent, not models, so that a cohort of lost clients leaves the model as it is. A cohort
of none asks everyone and weighs by lambda, which is the mean over all draws of D and U.

The authors' program draws clients alike and counts each lambda_i n / m times (sampling =
"uniform"), lets weight_lr fall by a factor every round (weight_lr_decay = 0.9), and keeps lambda
above a floor (weight_floor, here as a part of 1 / n and by projection). It takes the snapshot
before step t' rather than after it, for which there is no option: the mean above would be wrong.
"""

from typing import Any, ClassVar

import jax

from fedloom.algorithms.robust.exchanges import (
    DRFAMessage,
    DRFAReply,
    MixtureHub,
    first_hub,
    losses_of_all,
    mean_by_lambda,
    next_hub,
)
from fedloom.cohorts import uniform
from fedloom.local import projected_steps_keeping
from fedloom.operators.simplex import project_floored_simplex
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import Rule, at_least, fraction, one_of, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array

_below_one = Rule(lambda v: fraction.holds(v) and v < 1, "a number from 0 to below 1", 0.01)


@algorithm
class DRFA(Algorithm):
    """Distributionally robust averaging: local steps, for the worst mixture of clients."""

    takes_constraint: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps")
    weight_lr: StepSize = param(step_size, "step size of the clients' weights, lambda")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = param(
        at_least(1).or_none("everyone, weighted by lambda"),
        "clients that train, and clients that are probed, in a round",
        default=None,
    )
    sampling: str = param(
        one_of("by_weight", "uniform"),
        "draw clients by lambda and average equally, or draw uniformly and weigh by lambda",
        default="by_weight",
    )
    weight_lr_decay: float = param(
        fraction, "weight_lr is multiplied by this after every round", default=1.0
    )
    weight_floor: float = param(
        _below_one, "smallest weight of a client, as a fraction of 1 / n", default=0.0
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> MixtureHub:
        """A fresh model and equal weights."""
        return first_hub(fed, key)

    def round(self, hub: MixtureHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at clients drawn by lambda; then the losses that move lambda."""
        draw_key, stop_key, probe_key = jax.random.split(key, 3)
        stop = jax.random.randint(stop_key, (), 1, self.local_steps + 1)
        message = DRFAMessage(hub.model, stop)
        mean = yield from mean_by_lambda(
            self.train, message, hub.weights, fed, draw_key, self.cohort, self.sampling
        )
        # A mean of points of W is in W; one whose weights do not sum to one need not be.
        model = fed.prox(hub.model + mean.change, self.lr)
        snapshot = fed.prox(hub.model + mean.snapshot, self.lr)
        probed = yield ask(self.probe, snapshot, to=uniform(probe_key, fed.n, self.cohort))
        losses = losses_of_all(probed, fed.n)
        rate = self.weight_lr * self.weight_lr_decay**hub.averages.rounds
        ascent = rate * self.local_steps * losses
        weights = project_floored_simplex(hub.weights + ascent, self.weight_floor / fed.n)
        return next_hub(hub, model, weights, iterate=snapshot)

    def other_models(self, hub: MixtureHub, fed: FedView, /) -> dict[str, Array]:
        """The mean of the snapshots."""
        return {"average": hub.averages.model}

    def train(
        self, client: tuple[()], message: DRFAMessage, f: SmoothOracle, key: Array, /
    ) -> tuple[Any, DRFAReply]:
        """K projected steps; the reply is the change at their end and at the snapshot."""
        start, stop = message
        last, kept = projected_steps_keeping(
            f,
            start,
            key,
            lr=self.lr,
            steps=self.local_steps,
            keep=stop,
            optimiser=self.optimiser,
        )
        return client, DRFAReply(last - start, kept - start)

    def probe(
        self, client: tuple[()], model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Any, Array]:
        """The loss on one batch."""
        return client, f.value(model, key)
