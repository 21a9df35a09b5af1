"""FedProx: local steps that are held back towards the global model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith. MLSys 2020, Algorithm 2.

    client i    approximately minimises  f_i(v) + (mu / 2) |v - w|^2,  by K steps from v = w:
                v <- v - lr (g_i(v) + mu (v - w))
    hub         w <- the average of the v_i

Sampling, as the paper prints it ("by_weight"): clients are drawn with the problem's weights as
probabilities, with replacement, and averaged alike. As the released code does it ("uniform", the
default): uniformly without replacement, and weighed by the problem's weights.

With a cohort: under both, averaged over the draws, a step is that of full participation, so with
short steps the limit is the solution of the stated problem. For that, a change counts n a_i / m
times under "uniform", as in FedAvg; the released code divides by the weights drawn, which is biased
if weights differ.

Some of the clients asked may be stragglers: they do a random part of the work, 1 to K - 1 steps,
and are averaged like the others, where FedAvg would drop them.

Differs from the paper: the local problem is solved by a number of steps, not to an accuracy.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import by_weight, cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least_zero, one_of, param, per_cent
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class FedProxHub(NamedTuple):
    """The global model."""

    model: Array


@algorithm
class FedProx(Algorithm):
    """Averaging with a proximal term at the clients."""

    lr: StepSize = param(step_size, "step size of the local steps")
    mu: float = param(at_least_zero, "weight of the proximal term", default=0.1)
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    sampling: str = param(
        one_of("uniform", "by_weight"),
        "draw clients uniformly and average by weight, or draw by weight and average equally",
        default="uniform",
    )
    stragglers: int = param(
        per_cent, "per cent of the clients asked that do only a part of the steps", default=0
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedProxHub:
        """A fresh model."""
        return FedProxHub(fed.init_model(key))

    def round(self, hub: FedProxHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the average of the changes."""
        if self.sampling == "by_weight":
            cohort = by_weight(key, fed.weights, self.cohort or fed.n)
            change = (yield ask(self.train, hub.model, to=cohort)).mean()
        else:
            cohort = uniform(key, fed.n, self.cohort)
            change = (yield ask(self.train, hub.model, to=cohort)).estimate(fed.weights)
        return FedProxHub(hub.model + change), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """Steps on the proximal problem; the reply is the change of the model."""

        def gradient(v: Array, key: Array) -> Array:
            return f.grad(v, key) + self.mu * (v - model)

        steps = steps_of(self.local_steps, f)
        if self.stragglers:
            key, late_key, part_key = jax.random.split(key, 3)
            late = jax.random.uniform(late_key) < self.stragglers / 100
            part = jax.random.randint(part_key, (), 1, jnp.maximum(steps, 2))
            steps = jnp.where(late, part, steps)
        v = descend(gradient, model, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        return client, v - model
