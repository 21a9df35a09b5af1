"""DRFA-GA: robust averaging with a full gradient step in lambda.

Deng, Kamani, Mahdavi. NeurIPS 2020, Algorithm 3 (appendix).

    min_{w in W}  max_{lambda in the simplex}  sum_i lambda_i f_i(w) - (mu / 2) |lambda - 1/n|^2

    hub         D of m clients drawn by lambda, with replacement
    i in D      K times:  w_i <- P_W(w_i - lr g_i(w_i))
    everyone    the full loss f_i(w), at the model with which the round began
    hub         lambda <- P_simplex(lambda + weight_lr (f(w) - mu (lambda - 1/n)))
                w <- mean_D w_i

There is no factor K in the step of lambda.

With a cohort: the mean over D is unbiased, so with short steps the limit is that of full
participation. If losses are lost on the way, each of the m that arrive counts n / m times.

Paper            here                     Paper           here
tau, eta         local_steps, lr          gamma           weight_lr
w_bar, lambda    MixtureHub               m, N            cohort, fed.n

Differs from the paper: the paper's g is any smooth strongly concave function; here it is the
quadratic one, or none (mu = 0). The gradient of KL is unbounded on the simplex, so that it has no
place in a gradient step. The paper's answer averages the second half of all local iterates, which
needs the number of rounds beforehand; here the mean of all rounds' models is reported as `average`,
beside the last one. A cohort of none asks everyone and weighs by lambda.
"""

from typing import ClassVar

from fedloom.algorithms.robust.exchanges import (
    MixtureHub,
    first_hub,
    losses_of_all,
    mean_by_lambda,
    next_hub,
)
from fedloom.cohorts import everyone
from fedloom.local import projected_steps
from fedloom.operators.proximal import project_simplex
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, at_least_zero, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


@algorithm
class DRFAGA(Algorithm):
    """Distributionally robust averaging in which all clients' full losses move lambda."""

    takes_constraint: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps")
    weight_lr: StepSize = param(step_size, "step size of the clients' weights, lambda")
    mu: float = param(
        at_least_zero, "how strongly lambda is kept near equal weights; 0: not at all", default=0.0
    )
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = param(
        at_least(1).or_none("everyone, weighted by lambda"),
        "clients that train in a round",
        default=None,
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> MixtureHub:
        """A fresh model and equal weights."""
        return first_hub(fed, key)

    def round(self, hub: MixtureHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at clients drawn by lambda, and everyone's loss at the start of them."""
        change = yield from mean_by_lambda(
            self.train, hub.model, hub.weights, fed, key, self.cohort
        )
        values = yield ask(self.value, hub.model, to=everyone(fed.n))
        slope = losses_of_all(values, fed.n) - self.mu * (hub.weights - 1 / fed.n)
        rate = values.cohort.any() * self.weight_lr
        weights = project_simplex(hub.weights + rate * slope)
        model = hub.model + change
        return next_hub(hub, model, weights, iterate=model)

    def other_models(self, hub: MixtureHub, fed: FedView, /) -> dict[str, Array]:
        """The mean of the rounds' models."""
        return {"average": hub.averages.model}

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K projected steps; the reply is the change of the model."""
        last = projected_steps(
            f, model, key, lr=self.lr, steps=self.local_steps, optimiser=self.optimiser
        )
        return client, last - model

    def value(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """The loss on all of the client's rows."""
        return client, f.full_value(model)
