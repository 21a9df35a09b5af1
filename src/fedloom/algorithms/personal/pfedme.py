"""pFedMe: personal models near a global one, through Moreau envelopes.

Dinh, Tran, Nguyen. NeurIPS 2020, Algorithm 1.

    min_w  sum_i a_i F_i(w),   F_i(w) = min_x f_i(x) + (penalty / 2) |x - w|^2

    hub         w to a cohort S
    client i    w_i = x = w;  R times:  one batch B;
                              K times:  x <- x - lr ( f_i'(x; B) + penalty (x - w_i) )
                              w_i <- w_i - outer_lr penalty (w_i - x)
    hub         w <- w + mixing (n/m) sum_S a_i (w_i - w)

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem. With equal weights, the hub's line is the
paper's (1 - mixing) w + mixing mean_S w_i.

Paper            here                     Paper             here
lambda, eta      penalty, outer_lr        R, K, beta        local_steps, inner_steps, mixing

Differs from the paper: it lets all clients train and then averages a sample; here the others do not
train, which changes nothing for the hub, and they deploy what they last had. The released program's
weight decay of 1e-3 in the inner steps is left to the problem's l2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Tree


class PFedMeHub(NamedTuple):
    """The global model."""

    model: Array


class PFedMeClient(NamedTuple):
    """The personal model, once the client has taken part."""

    personal: Array
    trained: Array


@algorithm
class PFedMe(Algorithm):
    """Personal models near a common one, through Moreau envelopes."""

    lr: StepSize = param(step_size, "step size of the personal models")
    penalty: float = param(positive, "weight of the distance to the global model", default=15.0)
    outer_lr: StepSize = param(
        step_size, "step size of the local copies of the model", default=0.005
    )
    inner_steps: int = param(at_least(1), "steps on one batch", default=5)
    local_steps: int | str = param(steps_rule, "batches a round", default=10)
    mixing: float = param(
        positive, "part of the distance to the average that the hub moves", default=1.0
    )
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> PFedMeHub:
        """A fresh model."""
        return PFedMeHub(fed.init_model(key))

    def init_client(self, f: SmoothOracle, key: Array, /) -> PFedMeClient:
        """No personal model yet."""
        return PFedMeClient(f.zeros(), jnp.array(False))

    def round(self, hub: PFedMeHub, fed: FedView, key: Array, /) -> Round:
        """Personal steps at a cohort, then the average of the changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return PFedMeHub(hub.model + self.mixing * changes.estimate(fed.weights)), ()

    def train(
        self, client: PFedMeClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[PFedMeClient, Array]:
        """R times K steps; the reply is the change of the local copy."""
        State = tuple[Array, Tree, Array]

        def outer(state: State, key: Array) -> State:
            x, memory, w = state

            def inner(_: int, state: tuple[Array, Tree]) -> tuple[Array, Tree]:
                x, memory = state
                gradient = f.grad(x, key) + self.penalty * (x - w)
                return self.optimiser.move(x, gradient, memory, self.lr)

            x, memory = jax.lax.fori_loop(0, self.inner_steps, inner, (x, memory))
            return x, memory, w - self.outer_lr * self.penalty * (w - x)

        first = (model, self.optimiser.begin(model), model)
        x, _, w = repeat(outer, first, key, steps_of(self.local_steps, f))
        return PFedMeClient(x, jnp.array(True)), w - model

    def deployed(self, model: Array, client: PFedMeClient, f: SmoothOracle, /) -> Array:
        """The personal model; before the first round of the client, the global one."""
        return jnp.where(client.trained, client.personal, model)
