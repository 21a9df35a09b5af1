"""APFL: each client mixes a model of its own with the common one, and learns how much of each.

Deng, Kamani, Mahdavi. Adaptive personalized federated learning. 2020, Algorithm 1 with the adaptive
mixing of its Section 3.

    x_i = alpha_i v_i + (1 - alpha_i) w_i                                      what client i uses

    hub         w to a cohort
    client i    w_i = w;  once, on the first batch:
                alpha_i <- alpha_i - alpha_lr <v_i - w_i, f_i'(x_i)>,  back into [0, 1]
                K times, on one batch, both gradients at the old models:
                w_i <- w_i - lr f_i'(w_i)
                v_i <- v_i - personal_lr alpha_i f_i'(x_i)
    hub         w <- w + (n/m) sum_S a_i (w_i - w)
    deployed    alpha_i v_i + (1 - alpha_i) w

alpha_i f_i'(x_i) is the gradient of f_i(x_i) by v_i. With alpha = 1 throughout this is local
training, with alpha = 0 FedAvg.

With a cohort: w is FedAvg's, so with short steps w converges to the same point as with everyone.
v_i and alpha_i stay as they are while their client is absent; once w has settled, x_i converges to
the minimiser of f_i, unless alpha_i has reached 0. Personal models then gain by where training
stops, not by where it would end.

Paper            here                     Paper             here
eta_t            lr, personal_lr          tau               local_steps

Differs from the paper: synchronise, then step, and the deployed model mixes with the hub's w. Own
models begin at the first w that their client receives. alpha_i moves once a round, as in the
released program, which also pulls it to 0 by a penalty that the paper does not have.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.personal.personal_models import CommonHub
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least_zero, fraction, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Tree


class APFLClient(NamedTuple):
    """The own model v_i and its share alpha_i in the mixture, once the client has taken part."""

    model: Array
    alpha: Array
    trained: Array


@algorithm
class APFL(Algorithm):
    """Adaptive mixtures of own models and a common one."""

    lr: StepSize = param(step_size, "step size of the common model")
    alpha: float = param(fraction, "initial share of the own model in the mixture", default=0.5)
    alpha_lr: float = param(
        at_least_zero, "step size of that share; with 0 it stays as it is", default=0.1
    )
    personal_lr: StepSize | None = param(
        step_size.or_none("lr"), "step size of the own models", default=None
    )
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh common model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: SmoothOracle, key: Array, /) -> APFLClient:
        """No own model yet."""
        zeros = f.zeros()
        return APFLClient(zeros, jnp.asarray(self.alpha, zeros.dtype), jnp.array(False))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Steps on both models at a cohort, then the mean of the common one's changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return CommonHub(hub.model + changes.estimate(fed.weights)), ()

    def train(
        self, client: APFLClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[APFLClient, Array]:
        """A step of alpha, then K steps on w_i and v_i; the reply is the change of w_i."""
        v = jnp.where(client.trained, client.model, model)
        uphill = jnp.dot(
            v - model, f.grad(mixed(client.alpha, v, model), draws.nth(key, jnp.asarray(0)))
        )
        alpha = jnp.clip(client.alpha - self.alpha_lr * uphill, 0, 1)
        personal_lr = self.lr if self.personal_lr is None else self.personal_lr
        move = self.optimiser.move
        State = tuple[Array, Array, tuple[Tree, Tree]]

        def step(state: State, key: Array) -> State:
            w, v, (of_w, of_v) = state
            common, own = f.grad(w, key), alpha * f.grad(mixed(alpha, v, w), key)
            (w, of_w), (v, of_v) = move(w, common, of_w, self.lr), move(v, own, of_v, personal_lr)
            return w, v, (of_w, of_v)

        begun = (self.optimiser.begin(model), self.optimiser.begin(v))
        w, v, _ = repeat(step, (model, v, begun), key, steps_of(self.local_steps, f))
        return APFLClient(v, alpha, jnp.array(True)), w - model

    def deployed(self, model: Array, client: APFLClient, f: SmoothOracle, /) -> Array:
        """The mixture with the hub's model; before the client's first round, that model."""
        return jnp.where(client.trained, mixed(client.alpha, client.model, model), model)


def mixed(alpha: Array, own: Array, common: Array) -> Array:
    """The model that a client uses."""
    return alpha * own + (1 - alpha) * common
