"""Local training: every client on its own, nothing is shared.

    client i    K times a round:  x_i <- x_i - lr g_i(x_i)

The yardstick below which personalisation is no gain; `QuantisedTraining` is the same for quantised
models. Messages are empty, and the hub's model stays as it began. With a cohort, the others wait.

Differs from the paper (any that compares with it) in that steps are counted in rounds.
"""

from typing import ClassVar

import jax.numpy as jnp

from fedloom.algorithms.personal.personal_models import IdleHub, PersonalModel, decay_param, passes
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, PersonalOracle
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Tree


@algorithm
class LocalTraining(Algorithm):
    """Stochastic gradient descent at every client, on its own rows and its own network."""

    takes: ClassVar[str] = "personal"
    personal_models: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size")
    local_steps: int | str = param(steps_rule, "steps a round", default=10)
    cohort: int | None = cohort_param()
    decay: float = decay_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> IdleHub:
        """A fresh model, which stays as it is."""
        return IdleHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> PersonalModel:
        """A fresh model of the client's own."""
        return PersonalModel(f.own.init(key), jnp.zeros((), jnp.int32))

    def round(self, hub: IdleHub, fed: FedView, key: Array, /) -> Round:
        """A cohort takes K steps each; nothing comes back, and the hub stays as it is."""
        yield ask(self.train, (), to=uniform(key, fed.n, self.cohort))
        return hub, ()

    def train(
        self, client: PersonalModel, message: tuple[()], f: PersonalOracle, key: Array, /
    ) -> tuple[PersonalModel, tuple[()]]:
        """K steps on the client's own model."""

        def step(state: tuple[PersonalModel, Tree], key: Array) -> tuple[PersonalModel, Tree]:
            (x, steps), memory = state
            lr = self.lr * self.decay ** passes(steps, f)
            x, memory = self.optimiser.move(x, f.own.grad(x, key), memory, lr)
            return PersonalModel(x, steps + 1), memory

        first = (client, self.optimiser.begin(client.model))
        return repeat(step, first, key, steps_of(self.local_steps, f))[0], ()

    def deployed(self, model: Array, client: PersonalModel, f: PersonalOracle, /) -> Array:
        """The client's own model."""
        return client.model
