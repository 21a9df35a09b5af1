"""FedAvgM, FedAdagrad, FedAdam and FedYogi: averaging whose hub has an optimiser of its own.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan. Adaptive federated optimization.
ICLR 2021, Algorithm 2. FedAvgM: Hsu, Qi, Brown. Measuring the effects of non-identical data
distribution for federated visual classification. 2019.

    client i    w_i = w;  K times:  w_i <- w_i - lr g_i(w_i);  sends w_i - w
    hub         d = (n/|S|) sum_S a_i (w_i - w)

    FedAvgM     m <- momentum m + d;                       w <- w + server_lr m
    the others  m <- b1 m + (1 - b1) d;                    w <- w + server_lr m / (sqrt(v) + tau)
    FedAdagrad  v <- v + d^2
    FedYogi     v <- v - (1 - b2) d^2 sign(v - d^2)
    FedAdam     v <- b2 v + (1 - b2) d^2

Squares, roots and signs are taken entry by entry. m begins at 0 and v at tau^2, the least that the
paper allows.

Paper            here                     Paper           here
eta_l, eta       lr, server_lr            beta_1, beta_2  b1, b2
x, m, v          model, mean, square      Delta           d

With a cohort: averaged over the draws of S, d is that of full participation. FedAvgM's step is
linear in d, so with short steps its limit is the solution of the stated problem. The others divide
by a root that depends on the draws too. With a long memory (b2 near 1, and FedAdagrad, whose v only
grows) this root is nearly constant, and the limit is again the solution of the stated problem. A
round without replies leaves the hub as it is, momentum included.

FedAvgM's rule is `optax.trace`. The others are not Optax's: its Adam and Yogi divide m and v by
1 - b^t, and begin elsewhere; its Adagrad has no m, and adds a constant under the root.

Differs from the paper: d carries the problem's weights and is unbiased where they differ, as in
FedAvg; with equal weights it is the paper's mean.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import below_one, param, positive
from fedloom.protocol import Algorithm, Replies, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing, Scalar


class FedAvgMHub(NamedTuple):
    """The global model, and the sum of changes of which older ones count less."""

    model: Array
    momentum: Array


class AdaptiveHub(NamedTuple):
    """The global model, and the means of changes, m, and of their squares, v."""

    model: Array
    mean: Array
    square: Array


def _first(fed: FedView, key: Array, tau: Scalar) -> AdaptiveHub:
    """A fresh model, m = 0 and v = tau^2."""
    model = fed.init_model(key)
    return AdaptiveHub(model, jnp.zeros_like(model), jnp.full_like(model, tau**2))


def _next(
    hub: AdaptiveHub, replies: Replies, change: Array, square: Array,
    b1: Scalar, server_lr: Scalar, tau: Scalar,
) -> AdaptiveHub:  # fmt: skip
    """The step along m / (sqrt(v) + tau), with v renewed already; none where nobody answered."""
    mean = b1 * hub.mean + (1 - b1) * change
    model = hub.model + server_lr * mean / (jnp.sqrt(square) + tau)
    answered = replies.cohort.any()
    after = AdaptiveHub(model, mean, square)
    return jax.tree.map(lambda new, old: jnp.where(answered, new, old), after, hub)


def _change(
    f: SmoothOracle, model: Array, key: Array,
    lr: Scalar, local_steps: int | str, optimiser: Optimiser,
) -> Array:  # fmt: skip
    """What the local steps change."""
    steps = steps_of(local_steps, f)
    return descend(f.grad, model, key, lr=lr, steps=steps, optimiser=optimiser) - model


@algorithm
class FedAvgM(Algorithm):
    """Averaging with momentum at the hub."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    momentum: float = param(
        below_one, "momentum: the part of the last step that is added to the next", default=0.9
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedAvgMHub:
        """A fresh model at rest."""
        model = fed.init_model(key)
        return FedAvgMHub(model, jnp.zeros_like(model))

    def round(self, hub: FedAvgMHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then a step with momentum."""
        replies = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        import optax

        rule, memory = optax.trace(self.momentum), optax.TraceState(hub.momentum)
        step, _ = rule.update(replies.estimate(fed.weights), memory)
        answered = replies.cohort.any()
        momentum = jnp.where(answered, step, hub.momentum)
        return FedAvgMHub(hub.model + answered * self.server_lr * momentum, momentum), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K local steps; the reply is the change of the model."""
        return client, _change(f, model, key, self.lr, self.local_steps, self.optimiser)


@algorithm
class FedAdagrad(Algorithm):
    """Averaging whose hub divides by the root of all squared changes so far."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=0.1)
    b1: float = param(below_one, "decay rate of the mean of changes", default=0.0)
    tau: float = param(positive, "added to the square root in the denominator", default=1e-3)
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> AdaptiveHub:
        """A fresh model, and no changes yet."""
        return _first(fed, key, self.tau)

    def round(self, hub: AdaptiveHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then Adagrad's step."""
        replies = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        change = replies.estimate(fed.weights)
        square = hub.square + change**2
        return _next(hub, replies, change, square, self.b1, self.server_lr, self.tau), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K local steps; the reply is the change of the model."""
        return client, _change(f, model, key, self.lr, self.local_steps, self.optimiser)


@algorithm
class FedAdam(Algorithm):
    """Averaging whose hub divides by the root of the mean of squared changes."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=0.1)
    b1: float = param(below_one, "decay rate of the mean of changes", default=0.9)
    b2: float = param(below_one, "decay rate of the mean of squares", default=0.99)
    tau: float = param(positive, "added to the square root in the denominator", default=1e-3)
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> AdaptiveHub:
        """A fresh model, and no changes yet."""
        return _first(fed, key, self.tau)

    def round(self, hub: AdaptiveHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then Adam's step."""
        replies = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        change = replies.estimate(fed.weights)
        square = self.b2 * hub.square + (1 - self.b2) * change**2
        return _next(hub, replies, change, square, self.b1, self.server_lr, self.tau), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K local steps; the reply is the change of the model."""
        return client, _change(f, model, key, self.lr, self.local_steps, self.optimiser)


@algorithm
class FedYogi(Algorithm):
    """FedAdam with a mean of squares that falls slowly, so that steps do not jump."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=0.1)
    b1: float = param(below_one, "decay rate of the mean of changes", default=0.9)
    b2: float = param(below_one, "decay rate of the mean of squares", default=0.99)
    tau: float = param(positive, "added to the square root in the denominator", default=1e-3)
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> AdaptiveHub:
        """A fresh model, and no changes yet."""
        return _first(fed, key, self.tau)

    def round(self, hub: AdaptiveHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then Yogi's step."""
        replies = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        change = replies.estimate(fed.weights)
        less = (1 - self.b2) * change**2 * jnp.sign(hub.square - change**2)
        square = hub.square - less
        return _next(hub, replies, change, square, self.b1, self.server_lr, self.tau), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K local steps; the reply is the change of the model."""
        return client, _change(f, model, key, self.lr, self.local_steps, self.optimiser)
