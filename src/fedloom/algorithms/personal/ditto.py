"""Ditto: own models that are held near a common one, which is trained as if they were not there.

Li, Hu, Beirami, Smith. ICML 2021, Algorithm 1.

    min_{v_i}  f_i(v_i) + (penalty / 2) |v_i - w*|^2,   w* = argmin_w sum_i a_i f_i(w)

    hub         w to a cohort S
    client i    w_i = w;  K times:  w_i <- w_i - lr g_i(w_i)
                personal_steps times:  v_i <- v_i - personal_lr ( g_i(v_i) + penalty (v_i - w) )
    hub         w <- w + (n/m) sum_S a_i (w_i - w)
    deployed    v_i

With penalty = 0 this is local training beside FedAvg; with a large one v_i stays at w, as long as
personal_lr is below 2 / (penalty + the curvature of f_i): steps beyond that run away. The common
model learns nothing from the own ones, and reaches them through the penalty alone, so that a w that
some clients distort does limited harm.

With a cohort: w is FedAvg's, so with short steps w converges to the same point as with everyone.
Own models stay as they are while their client is absent; once w has settled, each converges to the
minimiser of its own problem.

Paper            here                     Paper             here
lambda, eta      penalty, personal_lr     s                 personal_steps

Differs from the paper: UPDATE_GLOBAL and AGGREGATE, which it leaves open, are those of FedAvg. Own
models begin at the first w that their client receives. The steps on w_i and on v_i see the same
batches, in the same order.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.personal.personal_models import CommonHub
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least_zero, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class DittoClient(NamedTuple):
    """The own model v_i, once the client has taken part."""

    model: Array
    trained: Array


@algorithm
class Ditto(Algorithm):
    """Personal models with a penalty on their distance to FedAvg's model."""

    lr: StepSize = param(step_size, "step size of the common model")
    penalty: float = param(at_least_zero, "weight of the distance to the common model", default=1.0)
    local_steps: int | str = param(steps_rule, "steps a round on the common model", default=10)
    personal_lr: StepSize | None = param(
        step_size.or_none("lr"), "step size of the own models", default=None
    )
    personal_steps: int | str = param(steps_rule, "steps a round on an own model", default=10)
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh common model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: SmoothOracle, key: Array, /) -> DittoClient:
        """No own model yet."""
        return DittoClient(f.zeros(), jnp.array(False))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Steps on both models at a cohort, then the mean of the common one's changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return CommonHub(hub.model + changes.estimate(fed.weights)), ()

    def train(
        self, client: DittoClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[DittoClient, Array]:
        """Steps on w_i and on v_i; the reply is the change of w_i."""
        w = descend(
            f.grad, model, key,
            lr=self.lr, steps=steps_of(self.local_steps, f), optimiser=self.optimiser,
        )  # fmt: skip

        def gradient(v: Array, key: Array) -> Array:
            return f.grad(v, key) + self.penalty * (v - model)

        v = descend(
            gradient, self.deployed(model, client, f), key,
            lr=self.lr if self.personal_lr is None else self.personal_lr,
            steps=steps_of(self.personal_steps, f), optimiser=self.optimiser,
        )  # fmt: skip
        return DittoClient(v, jnp.array(True)), w - model

    def deployed(self, model: Array, client: DittoClient, f: SmoothOracle, /) -> Array:
        """The own model; before the client's first round, the common one."""
        return jnp.where(client.trained, client.model, model)
