"""SCAFF-PD: the worst mixture of clients, by corrected local steps and a dual that looks ahead.

Yu, Karimireddy, Ma, Jordan. Scaff-PD: communication efficient fair and robust federated learning.
2023 (arXiv:2307.13381), Algorithms 1 and 2.

    min_w  max_{lambda in the simplex}  sum_i lambda_i f_i(w) - (mu / 2) |lambda - 1/n|^2

    everyone    sends  l_i = f_i(w)  and  c_i = grad f_i(w)
    hub         s = l + extrapolation (l - the l of the round before)
                lambda <- argmax  <s, lambda> - (mu / 2) |lambda - 1/n|^2
                                  - |lambda - its last value|^2 / (2 weight_lr)
                c = sum_i lambda_i c_i
    everyone    K times from v_i = w:   v_i <- v_i - lr (g_i(v_i) - c_i + c)
    hub         w <- w + server_lr sum_i lambda_i (v_i - w)

Where DRFA takes a small step in lambda after the local steps, lambda here moves before them, along
extrapolated losses, and the correction keeps every client on the way of the new mixture: with full
gradients it ends at the solution, not near it. That takes two exchanges a round: a vector down and
one up, then two down and one up.

Paper            here                     Paper           here
x, J, eta_l      model, local_steps, lr   sigma           weight_lr
eta_g, tau       server_lr, K lr server_lr   theta        extrapolation
rho              mu / n                   L^r, c_i        losses, ScaffPDClient.control

With a cohort: the paper asks everyone, and so does this. If replies are lost, s takes the last
known losses of those clients; c is (n/m) times the sum over the m clients that answered, which is
right on average; and the changes, which are all along c, are averaged by lambda. With short steps
the limit is that of full participation.

Differs from the paper: its full text was not at hand, and the listing is what others report of it;
a test compares it with the known solution. Steps and extrapolation are constant; the paper has
sequences for each of its theorems; extrapolation = 1 is their limit. psi is the quadratic one, with
mu = 0 none, and Lambda the simplex. l_i and c_i are on one batch, and exact with full batches.
Changes are averaged by lambda; all are along c up to the drift that the correction leaves, so that
it matters little.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import everyone
from fedloom.local import descend, steps_of, steps_rule
from fedloom.operators.simplex import proximal_quadratic
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least_zero, fraction, param
from fedloom.protocol import Algorithm, Replies, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class ScaffPDHub(NamedTuple):
    """The model, lambda, and the clients' last losses."""

    model: Array
    weights: Array  # (n,) they sum to one
    losses: Array  # (n,)
    known: Array  # (n,) whose losses have arrived at least once


class ScaffPDShown(NamedTuple):
    """Diagnostics: lambda after the round."""

    weights: Array


class ScaffPDClient(NamedTuple):
    """The client's gradient at the model with which the round began."""

    control: Array


class ScaffPDLook(NamedTuple):
    """A client's loss and gradient at the model."""

    loss: Array
    gradient: Array


class ScaffPDMessage(NamedTuple):
    """Where local steps begin, and the gradient of the mixture there."""

    model: Array
    control: Array


def _losses(looks: Replies, hub: ScaffPDHub) -> tuple[Array, Array, Array]:
    """Each client's loss, the one before, and whose are known; else the mean stands for them."""
    n = len(hub.losses)
    arrived = looks.map(lambda look: jnp.ones(())).scatter(n) > 0
    last = jnp.where(hub.known, hub.losses, looks.mean().loss)
    now = jnp.where(arrived, looks.scatter(n).loss, last)
    return now, jnp.where(hub.known, last, now), hub.known | arrived


@algorithm
class ScaffPD(Algorithm):
    """Training for the worst mixture of clients: SCAFFOLD's steps and an accelerated dual."""

    lr: StepSize = param(step_size, "step size of the local steps")
    weight_lr: StepSize = param(step_size, "step size of the clients' weights, lambda")
    mu: float = param(
        at_least_zero, "how strongly lambda is kept near equal weights; 0: not at all", default=0.0
    )
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    extrapolation: float = param(
        fraction, "factor by which losses are extrapolated for lambda; 0: not at all", default=1.0
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> ScaffPDHub:
        """A fresh model and equal weights; nothing is known of losses."""
        model = fed.init_model(key)
        equal = jnp.full(fed.n, 1 / fed.n, fed.layout.dtype)
        return ScaffPDHub(model, equal, jnp.zeros_like(equal), jnp.zeros(fed.n, bool))

    def init_client(self, f: SmoothOracle, key: Array, /) -> ScaffPDClient:
        """Zero, until the first look."""
        return ScaffPDClient(f.zeros())

    def round(self, hub: ScaffPDHub, fed: FedView, key: Array, /) -> Round:
        """Losses and gradients of everyone, a step of lambda, then corrected local steps."""
        looks = yield ask(self.look, hub.model, to=everyone(fed.n))
        now, before, known = _losses(looks, hub)
        ahead = now + self.extrapolation * (now - before)
        pull = jnp.full_like(hub.weights, 1 / fed.n)
        moved = proximal_quadratic(
            hub.weights + self.weight_lr * ahead, self.weight_lr * self.mu, pull
        )
        weights = jnp.where(looks.cohort.any(), moved, hub.weights)
        control = looks.sum(weights * looks.cohort.scale(fed.n)).gradient
        message = ScaffPDMessage(hub.model, control)
        changes = yield ask(self.train, message, to=everyone(fed.n))
        model = hub.model + self.server_lr * changes.average(weights)
        return ScaffPDHub(model, weights, now, known), ScaffPDShown(weights)

    def look(
        self, client: ScaffPDClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[ScaffPDClient, ScaffPDLook]:
        """Loss and gradient on a batch; the gradient is kept."""
        loss, gradient = f.value_and_grad(model, key)
        return ScaffPDClient(gradient), ScaffPDLook(loss, gradient)

    def train(
        self, client: ScaffPDClient, message: ScaffPDMessage, f: SmoothOracle, key: Array, /
    ) -> tuple[ScaffPDClient, Array]:
        """K corrected steps; the reply is the change of the model."""

        def gradient(v: Array, key: Array) -> Array:
            return f.grad(v, key) - client.control + message.control

        steps, start = steps_of(self.local_steps, f), message.model
        v = descend(gradient, start, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        return client, v - start
