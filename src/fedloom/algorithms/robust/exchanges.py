"""What the robust methods share: the hub's state, means by lambda, and DRFA's two exchanges."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import by_weight, uniform
from fedloom.protocol import Ask, Replies, ask

Array = Any
Tree = Any
Exchanges = Generator[Ask, Replies, Tree]


class Averages(NamedTuple):
    """The means of model and lambda over the rounds so far."""

    model: Array
    weights: Array
    rounds: Array  # how many

    def including(self, model: Array, weights: Array) -> "Averages":
        """The means with one round more."""
        rounds = self.rounds + 1
        return Averages(
            self.model + (model - self.model) / rounds,
            self.weights + (weights - self.weights) / rounds,
            rounds,
        )


class RobustHub(NamedTuple):
    """The model, the weights of the clients (lambda), and the means of both."""

    model: Array
    weights: Array  # (n,) they sum to one
    averages: Averages


class Shown(NamedTuple):
    """For the eye: lambda after the round, and its mean over the rounds."""

    weights: Array
    average_weights: Array


class Task(NamedTuple):
    """Where local steps begin, and after how many of them a snapshot is taken."""

    model: Array
    stop: Array


class Trained(NamedTuple):
    """How the client's model had changed at the end, and at the snapshot."""

    change: Array
    snapshot: Array


class Probed(NamedTuple):
    """What a round of DRFA knows before lambda moves."""

    model: Array  # the next model
    snapshot: Array  # the model after t' steps
    losses: Array  # (n,) v: an unbiased estimate of all clients' losses at the snapshot


def first_hub(fed: Any, key: Array) -> RobustHub:
    """A fresh model inside the constraint set, and equal weights."""
    model = fed.prox(fed.init_model(key), 1.0)
    weights = jnp.full(fed.n, 1 / fed.n, fed.layout.dtype)
    return RobustHub(model, weights, Averages(model, weights, jnp.zeros((), jnp.int32)))


def next_hub(
    hub: RobustHub, model: Array, weights: Array, iterate: Array
) -> tuple[RobustHub, Shown]:
    """The hub after a round; `iterate` is the model that counts in the average."""
    averages = hub.averages.including(iterate, hub.weights)
    return RobustHub(model, weights, averages), Shown(weights, averages.weights)


def mean_by_lambda(
    method: Callable,
    message: Tree,
    weights: Array,
    fed: Any,
    key: Array,
    cohort: int | None,
    sampling: str = "by_weight",
) -> Exchanges:
    """Ask a cohort; the mean of its replies is unbiased for sum_i lambda_i (reply of client i).

    By weight: clients drawn by lambda with replacement, and a plain mean. Without replacement the
    mean would be biased towards clients of small lambda. Uniform: clients drawn alike without
    replacement, each counted lambda_i n / m times. A cohort of everyone gives the sum itself.
    """
    if cohort is not None and sampling == "by_weight":
        return (yield ask(method, message, to=by_weight(key, weights, cohort))).mean()
    asked = uniform(key, fed.n, cohort)
    return (yield ask(method, message, to=asked)).sum(weights * (fed.n / len(asked)))


def train_and_probe(
    method: Any, hub: RobustHub, fed: Any, key: Array, sampling: str = "by_weight"
) -> Exchanges:
    """Steps 1 to 6 of DRFA, which DRFA-Prox shares; `method` trains and probes."""
    draw_key, stop_key, probe_key = jax.random.split(key, 3)
    stop = jax.random.randint(stop_key, (), 1, method.local_steps + 1)
    trained = yield from mean_by_lambda(
        method.train, Task(hub.model, stop), hub.weights, fed, draw_key, method.cohort, sampling
    )
    # A mean of points of W is in W; one whose weights do not sum to one need not be.
    model = fed.prox(hub.model + trained.change, method.lr)
    snapshot = fed.prox(hub.model + trained.snapshot, method.lr)
    asked = uniform(probe_key, fed.n, method.cohort)
    losses = yield ask(method.probe, snapshot, to=asked)
    return Probed(model, snapshot, (fed.n / len(asked)) * losses.scatter(fed.n))
