"""TERM: tilted losses, one number between the mean of all clients and the worst of them.

Li, Beirami, Sanjabi, Smith. Tilted empirical risk minimization. ICLR 2021, Algorithms 1 and 2 with
clients as the groups.

    min_w  R(w) = (1 / t) log sum_i a_i exp(t f_i(w))

    client i    v_i = K steps of gradient descent from w;   e_i = exp(t (f_i(w) - r))
                sends  e_i (v_i - w)  and  e_i
    hub         z = (1 - tracking) + tracking (n/|S|) sum_S a_i e_i
                w <- w + (n/|S|) sum_S a_i e_i (v_i - w) / z;    r <- r + log(z) / t

The gradient of R is that of the f_i with weights a_i exp(t (f_i - R)): for t > 0 clients with a
large loss count more, up to the worst one alone, for t < 0 less, which is for clients whose data
are not to be trusted; t near 0 is FedAvg. r follows R(w), so that the exponentials are of a sane
size, and the hub needs no single loss but sums only. f_i(w) is over all of the client's rows.

Paper            here                     Paper           here
t                tilt                     lambda          tracking
R_tilde          TERMHub.level, r         w_{t,x}         e_i / z

With a cohort: everyone with tracking = 1 is Algorithm 1, whose weights sum to one. With fewer
clients, z remembers earlier rounds as in Algorithm 2. A part `tracking` of z comes from the cohort
itself, and the mean of a quotient is not the quotient of the means: the smaller this part, the
closer the limit with short steps is to the solution of the stated problem.

Differs from the paper: Algorithm 2 draws a group and then a batch of it, and takes one step;
here a cohort takes K, as in its experiments on federated data. Clients carry the problem's weights.
Exponents are kept between -50 and 50, which matters only while r is far from R. r begins at the
mean of the losses, where the paper begins at R: with a large t and a small cohort the first steps
are up to 1 / tracking times too long.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import Rule, param, positive, positive_fraction
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing

_MOST = 50.0  # of an exponent: exp(50) and its inverse are far from the ends of single precision
_tilt = Rule(
    lambda v: positive.holds(v) or (isinstance(v, int | float) and positive.holds(-v)),
    "a number other than 0",
    1.0,
    {"type": "number", "not": {"const": 0}},
)


class TERMHub(NamedTuple):
    """The global model, and what the tilted loss is about."""

    model: Array
    level: Array


class Tilted(NamedTuple):
    """A client's change times its exponential, and the exponential."""

    change: Array
    factor: Array


@algorithm
class TERM(Algorithm):
    """Averaging weighted by exponentials of the losses: fair for t > 0, cautious for t < 0."""

    lr: StepSize = param(step_size, "step size of the local steps")
    tilt: float = param(_tilt, "the tilt t: above 0 large losses count more, below 0 less")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    tracking: float | None = param(
        positive_fraction.or_none("the fraction of clients that is asked"),
        "weight of a round's losses in the estimate of the tilted loss",
        default=None,
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> TERMHub:
        """A fresh model; the opening finds its level."""
        model = fed.init_model(key)
        return TERMHub(model, jnp.zeros((), model.dtype))

    def opening(self, hub: TERMHub, fed: FedView, key: Array, /) -> Round:
        """The mean of the losses, near which the tilted loss is."""
        losses = yield ask(self.value, hub.model, to=uniform(key, fed.n, None))
        return hub._replace(level=losses.average(fed.weights)), ()

    def value(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """The loss on all of the client's rows."""
        return client, f.full_value(model)

    def round(self, hub: TERMHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean of the changes by tilted losses."""
        replies = yield ask(self.train, hub, to=uniform(key, fed.n, self.cohort))
        total = replies.estimate(fed.weights)
        new = (self.cohort or fed.n) / fed.n if self.tracking is None else self.tracking
        z = jnp.where(replies.cohort.any(), 1 - new + new * total.factor, 1)
        return TERMHub(hub.model + total.change / z, hub.level + jnp.log(z) / self.tilt), ()

    def train(
        self, client: Nothing, hub: TERMHub, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Tilted]:
        """K steps; the reply is the change of the model, weighed by the loss before."""
        steps = steps_of(self.local_steps, f)
        v = descend(f.grad, hub.model, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        exponent = self.tilt * (f.full_value(hub.model) - hub.level)
        factor = jnp.exp(jnp.clip(exponent, -_MOST, _MOST))
        return client, Tilted(factor * (v - hub.model), factor)
