"""Federated mutual learning: a private model and a travelling one teach each other.

Shen, Zhang, Jia, Zhang, Huang, Zhou, Kuang, Wu, Wu. 2020 (FML).

    hub         w to a cohort
    client i    w_i = w;  K times, on one batch, both gradients at the old models:
                x_i <- x_i - lr [ (1 - a) f_i'(x_i) + a KL'( s_w || s_x ) ]
                w_i <- w_i - lr [ (1 - b) f_i'(w_i) + b KL'( s_x || s_w ) ]
    hub         w <- w + (n/m) sum_S a_i (w_i - w)

In each divergence the other model's outputs are fixed targets. The private models may be of any
architecture.

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps w converges to the same point as with everyone. Own models stay as they are while their client
is absent.

Paper            here                     Paper             here
1 - alpha        guidance                 1 - beta          common_guidance

Differs from the paper: alpha and beta there weigh the data; here the parameters weigh the other
model, as `guidance` does in QuPeD. No momentum and no weight decay unless `optimiser` says so.
"""

from typing import ClassVar

import jax.numpy as jnp

from fedloom.algorithms.personal.personal_models import (
    CommonHub,
    PersonalModel,
    decay_param,
    passes,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, PersonalOracle
from fedloom.parameters import fraction, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Tree


@algorithm
class MutualLearning(Algorithm):
    """Deep mutual learning between own models and a common one."""

    takes: ClassVar[str] = "personal"
    personal_models: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of both models")
    guidance: float = param(
        fraction, "weight of the common model's outputs in training the own one", default=0.25
    )
    common_guidance: float = param(
        fraction, "weight of the own model's outputs in training the common one", default=0.25
    )
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    decay: float = decay_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh common model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> PersonalModel:
        """A fresh model of the client's own."""
        return PersonalModel(f.own.init(key), jnp.zeros((), jnp.int32))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Steps at a cohort, then the average of the common model's changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return CommonHub(hub.model + changes.estimate(fed.weights)), ()

    def train(
        self, client: PersonalModel, model: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[PersonalModel, Array]:
        """K steps on both models; the reply is the change of the common one."""
        move = self.optimiser.move
        State = tuple[PersonalModel, Array, tuple[Tree, Tree]]

        def step(state: State, key: Array) -> State:
            (x, steps), w, (of_x, of_w) = state
            batch = f.draw(key)
            lr = self.lr * self.decay ** passes(steps, f)
            own = f.own.learn(x, batch, self.guidance, f.outputs(w, batch))
            common = f.learn(w, batch, self.common_guidance, f.own.outputs(x, batch))
            (x, of_x), (w, of_w) = move(x, own, of_x, lr), move(w, common, of_w, lr)
            return PersonalModel(x, steps + 1), w, (of_x, of_w)

        begun = (self.optimiser.begin(client.model), self.optimiser.begin(model))
        first = (client, model, begun)
        client, w, _ = repeat(step, first, key, steps_of(self.local_steps, f))
        return client, w - model

    def deployed(self, model: Array, client: PersonalModel, f: PersonalOracle, /) -> Array:
        """The client's own model."""
        return client.model
