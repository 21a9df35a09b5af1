"""Scaffnew: a random number of local steps, and control variates that cost no message up.

Mishchenko, Malinovsky, Stich, Richtárik. ProxSkip: yes! Local gradient steps provably lead to
communication acceleration! Finally! ICML 2022, Algorithm 2.

    every t     v_i <- v_i - lr (g_i(v_i) - h_i)             at all clients
    with chance p, the same coin for all:
                w = mean v_i;   h_i <- h_i + (p / lr) (w - v_i);   v_i <- w

A round here is all that lies between two communications, so that rounds and bytes compare with
those of other methods. The hub draws how many steps that is, a geometric number of mean 1 / p, and
sends it with the model:

    client i    v_i = w;  L times:  v_i <- v_i - lr (g_i(v_i) - c_i + c);   sends v_i - w
                c_i <- c_i + (p / lr) (w - v_i)
    hub         c <- c + (p / lr) sum_S a_i (w - v_i)
                w <- w + (n/|S|) sum_S a_i (v_i - w)

with c_i = h_i + c. These are the paper's steps: c is the mean of the c_i, and h_i changes by
(p / lr) (mean v_j - v_i). No client needs to be told the mean of the round in which it took part.

Paper            here                     Paper           here
gamma, p         lr, p                    h_i             c_i - c
theta_t          the number of steps      x_i, xh_i       w, v_i

With a cohort: the paper asks everyone. Here c stays the weighted mean of all c_i, whoever takes
part, and at the optimum every client's change is zero. So with full gradients the limit is exact,
as for SCAFFOLD. The accelerated rate is proven only for full participation.

Differs from the paper: c is sent beside the model, which the paper avoids, and which lets clients
be absent; a late reply moves the limit, as with SCAFFOLD. Clients may carry the problem's weights.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import param, positive_fraction
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Scalar


class ScaffnewHub(NamedTuple):
    """The global model, and the mean of all control variates."""

    model: Array
    control: Array


class ScaffnewMessage(NamedTuple):
    """Where local steps begin, how they are corrected, and how many they are."""

    model: Array
    control: Array
    steps: Array


class ScaffnewClient(NamedTuple):
    """What the client's gradient is expected to be, beside the mean of all clients'."""

    control: Array


def geometric(key: Array, p: Scalar) -> Array:
    """The number of coin tosses up to and including the first success, which has chance p."""
    p = jnp.asarray(p)
    # 1 - u is never 0, whose logarithm would be an endless round.
    u = jax.random.uniform(key, (), p.dtype)
    more = jnp.floor(jnp.log1p(-u) / jnp.log1p(-p))
    return 1 + jnp.minimum(more, 2.0**30).astype(jnp.int32)


def _rate(p: Scalar, lr: Scalar) -> Array:
    """P / lr, for changes that a schedule may have brought to zero with lr."""
    moves = jnp.asarray(lr) > 0
    return jnp.where(moves, p / jnp.where(moves, lr, 1), 0)


@algorithm
class Scaffnew(Algorithm):
    """A random number of local steps in each round, corrected as in SCAFFOLD."""

    lr: StepSize = param(step_size, "step size of the local steps")
    p: float = param(
        positive_fraction,
        "probability that a step is the last of its round; the mean number of steps is 1 / p",
        default=0.1,
    )
    cohort: int | None = cohort_param()

    def init_hub(self, fed: FedView, key: Array, /) -> ScaffnewHub:
        """A fresh model, and zero control."""
        model = fed.init_model(key)
        return ScaffnewHub(model, jnp.zeros_like(model))

    def init_client(self, f: SmoothOracle, key: Array, /) -> ScaffnewClient:
        """Zero control, so that the mean over clients is the hub's."""
        return ScaffnewClient(f.zeros())

    def round(self, hub: ScaffnewHub, fed: FedView, key: Array, /) -> Round:
        """Corrected steps at a cohort until the coin falls; then both means."""
        draw_key, coin_key = jax.random.split(key)
        message = ScaffnewMessage(*hub, geometric(coin_key, self.p))
        changes = yield ask(self.train, message, to=uniform(draw_key, fed.n, self.cohort))
        control = hub.control - _rate(self.p, self.lr) * changes.sum(fed.weights)
        return ScaffnewHub(hub.model + changes.estimate(fed.weights), control), ()

    def train(
        self, client: ScaffnewClient, message: ScaffnewMessage, f: SmoothOracle, key: Array, /
    ) -> tuple[ScaffnewClient, Array]:
        """L corrected steps, then a new control variate; the reply is the change of the model."""

        def step(v: Array, key: Array) -> Array:
            return v - self.lr * (f.grad(v, key) - client.control + message.control)

        change = repeat(step, message.model, key, message.steps) - message.model
        return ScaffnewClient(client.control - _rate(self.p, self.lr) * change), change
