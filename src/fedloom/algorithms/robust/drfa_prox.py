"""DRFA-Prox: DRFA with a concave term in lambda, handled by its proximal map.

Deng, Kamani, Mahdavi. NeurIPS 2020, Algorithm 2.

    min_{w in W}  max_{lambda in the simplex}  sum_i lambda_i f_i(w) + g(lambda)

    the round of DRFA (see drfa.py) up to the estimate v of the losses; then, with
    a = lambda + weight_lr K v,
    hub         lambda <- argmax_{u in the simplex}  K g(u) - |u - a|^2 / (2 weight_lr)

    prior "quadratic"   g(u) = -(mu / 2) |u - q|^2      prior "kl"   g(u) = -mu KL(u || q)

with q = 1 / n each. The larger mu, the closer lambda is kept to equal weights; mu to 0 is DRFA.
With c = weight_lr K mu, the first is P_simplex((a + c q) / (1 + c)), and in the second u_i solves
c log(u_i / q_i) + u_i = a_i - c - nu, with the nu at which the u_i sum to one.

With a cohort: as in DRFA, the limit is that of full participation. A round in which no loss arrives
leaves lambda as it is; otherwise g would weigh more than stated.

Paper            here                     Paper           here
tau, eta         local_steps, lr          gamma           weight_lr
w_bar, lambda    MixtureHub               m, N            cohort, fed.n

Differs from the paper: v carries n / m, without which g would weigh n / m times as much as stated.
The mean of the snapshots is reported as `average`, as for DRFA.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

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
from fedloom.operators.simplex import proximal_kl, proximal_quadratic
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, one_of, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array

_PRIORS = {"quadratic": proximal_quadratic, "kl": proximal_kl}


@algorithm
class DRFAProx(Algorithm):
    """Distributionally robust averaging that stays near equal weights."""

    takes_constraint: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps")
    weight_lr: StepSize = param(step_size, "step size of the clients' weights, lambda")
    mu: float = param(positive, "how strongly lambda is kept near equal weights")
    prior: str = param(
        one_of(*_PRIORS),
        "the distance by which lambda is kept near equal weights",
        default="quadratic",
    )
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = param(
        at_least(1).or_none("everyone, weighted by lambda"),
        "clients that train, and clients that are probed, in a round",
        default=None,
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> MixtureHub:
        """A fresh model and equal weights."""
        return first_hub(fed, key)

    def round(self, hub: MixtureHub, fed: FedView, key: Array, /) -> Round:
        """The exchanges of DRFA, then the proximal map of g."""
        draw_key, stop_key, probe_key = jax.random.split(key, 3)
        stop = jax.random.randint(stop_key, (), 1, self.local_steps + 1)
        message = DRFAMessage(hub.model, stop)
        mean = yield from mean_by_lambda(
            self.train, message, hub.weights, fed, draw_key, self.cohort
        )
        # A mean of points of W is in W; one whose weights do not sum to one need not be.
        model = fed.prox(hub.model + mean.change, self.lr)
        snapshot = fed.prox(hub.model + mean.snapshot, self.lr)
        probed = yield ask(self.probe, snapshot, to=uniform(probe_key, fed.n, self.cohort))
        losses = losses_of_all(probed, fed.n)
        rate = self.weight_lr * self.local_steps
        equal = jnp.full_like(hub.weights, 1 / fed.n)
        proximal = _PRIORS[self.prior]
        moved = proximal(hub.weights + rate * losses, rate * self.mu, equal)
        weights = jnp.where(probed.cohort.any(), moved, hub.weights)
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
