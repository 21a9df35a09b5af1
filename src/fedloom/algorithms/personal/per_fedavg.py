"""Per-FedAvg: a model from which one step makes a good personal one.

Fallah, Mokhtari, Ozdaglar. NeurIPS 2020.

    min_w  sum_i a_i f_i( w - personal_lr f_i'(w) )

    client i    w_i = w;  K times, with batches B, B', B'':
                v = w_i - personal_lr f_i'(w_i; B),   u = f_i'(v; B')
                first-order     w_i <- w_i - lr u
                Hessian-free    h = ( f_i'(w_i + e u; B'') - f_i'(w_i - e u; B'') ) / (2 e)
                                w_i <- w_i - lr (u - personal_lr h)
    hub         w <- w + (n/m) sum_S a_i (w_i - w)
    deployed    w - personal_lr f_i'(w), on all of the client's own training rows

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem.

Paper            here                     Paper             here
alpha, beta      personal_lr, lr          tau, delta        local_steps, difference

Differs from the paper: changes of the model are averaged rather than models, and the deployed model
takes its personal step on all of the client's training rows, not on a batch of them.
"""

from typing import NamedTuple

import jax

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import one_of, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class PerFedAvgHub(NamedTuple):
    """The model that clients adapt."""

    model: Array


@algorithm
class PerFedAvg(Algorithm):
    """Averaging of a model that each client adapts by one gradient step."""

    lr: StepSize = param(step_size, "step size of the local steps")
    personal_lr: float = param(positive, "step size of the personal step", default=0.001)
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    variant: str = param(
        one_of("first-order", "hessian-free"), "how the second-order term is treated",
        default="hessian-free",
    )  # fmt: skip
    difference: float = param(positive, "length of the finite difference", default=1e-3)
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> PerFedAvgHub:
        """A fresh model."""
        return PerFedAvgHub(fed.init_model(key))

    def round(self, hub: PerFedAvgHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the average of the changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return PerFedAvgHub(hub.model + changes.estimate(fed.weights)), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K steps through the personal step; the reply is the change of the model."""

        def gradient(w: Array, key: Array) -> Array:
            first, second, third = jax.random.split(key, 3)
            u = f.grad(w - self.personal_lr * f.grad(w, first), second)
            if self.variant == "first-order":
                return u
            e = self.difference
            h = (f.grad(w + e * u, third) - f.grad(w - e * u, third)) / (2 * e)
            return u - self.personal_lr * h

        steps = steps_of(self.local_steps, f)
        w = descend(gradient, model, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        return client, w - model

    def deployed(self, model: Array, client: Nothing, f: SmoothOracle, /) -> Array:
        """The model after one personal step."""
        return model - self.personal_lr * f.full_grad(model)
