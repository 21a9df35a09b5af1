"""SCAFFOLD: averaging with control variates that cancel client drift.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. ICML 2020, Algorithm 1.

    client i, K local steps from v = w:   v <- v - lr (g_i(v) - c_i + c)
    then, option I                        c_i+ = the full gradient of f_i at w
          option II                       c_i+ = c_i - c + (w - v) / (K lr)
    hub                                   w <- w + server_lr (N/|S|) sum_S a_i (v_i - w)
                                          c <- c + sum_S a_i (c_i+ - c_i)

Paper            here                     Paper           here
x, c             ScaffoldHub              c_i             ScaffoldClient.control
K, eta_l         local_steps, lr          S, N            cohort, fed.n

With a cohort: c stays the weighted mean of all c_i, and averaged over the draws of S, a step is
that of full participation. At the optimum every client's change is zero, so with full gradients the
limit is exact, whoever takes part.

Differs from the paper: where the problem weighs clients by size, both sums carry those weights;
with equal weights, a_i = 1/N, this is the paper's listing. With an optimiser other than plain
steps, option II takes the mean of the gradients on the way, which for plain steps is the quotient
above.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend_with_mean, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import one_of, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class ScaffoldHub(NamedTuple):
    """The global model and the mean of all control variates."""

    model: Array
    control: Array


class ScaffoldClient(NamedTuple):
    """What the client's gradient is expected to be."""

    control: Array


class ScaffoldReply(NamedTuple):
    """How the client's model and control variate changed."""

    model_change: Array
    control_change: Array


@algorithm
class Scaffold(Algorithm):
    """Averaging with control variates that cancel client drift."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    option: str = param(one_of("I", "II"), "how control variates are updated", default="II")
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> ScaffoldHub:
        """A fresh model, and zero control."""
        model = fed.init_model(key)
        return ScaffoldHub(model, jnp.zeros_like(model))

    def init_client(self, f: SmoothOracle, key: Array, /) -> ScaffoldClient:
        """Zero control, so that the mean over clients is the hub's."""
        return ScaffoldClient(f.zeros())

    def round(self, hub: ScaffoldHub, fed: FedView, key: Array, /) -> Round:
        """Corrected local steps at a cohort; then both means."""
        replies = yield ask(self.train, hub, to=uniform(key, fed.n, self.cohort))
        model = hub.model + self.server_lr * replies.estimate(fed.weights).model_change
        control = hub.control + replies.sum(fed.weights).control_change
        return ScaffoldHub(model, control), ()

    def train(
        self, client: ScaffoldClient, hub: ScaffoldHub, f: SmoothOracle, key: Array, /
    ) -> tuple[ScaffoldClient, ScaffoldReply]:
        """K corrected steps, then a new control variate."""

        def gradient(v: Array, key: Array) -> Array:
            return f.grad(v, key) - client.control + hub.control

        steps = steps_of(self.local_steps, f)
        v, mean = descend_with_mean(
            gradient, hub.model, key, lr=self.lr, steps=steps, optimiser=self.optimiser
        )
        if self.option == "I":
            control = f.full_grad(hub.model)
        else:
            control = client.control - hub.control + mean
        return ScaffoldClient(control), ScaffoldReply(v - hub.model, control - client.control)
