"""What the robust methods share: the hub's state, means by lambda, and estimates of all losses."""

from collections.abc import Callable, Generator
from typing import NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import by_weight, uniform
from fedloom.oracles import FedView
from fedloom.protocol import Ask, Replies, ask
from fedloom.types import Array, Tree

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


class MixtureHub(NamedTuple):
    """The model, the weights of the clients (lambda), and the means of both."""

    model: Array
    weights: Array  # (n,) they sum to one
    averages: Averages


class MixtureShown(NamedTuple):
    """Diagnostics: lambda after the round, and its mean over the rounds."""

    weights: Array
    average_weights: Array


class DRFAMessage(NamedTuple):
    """Where local steps begin, and after how many of them, t', a snapshot is taken."""

    model: Array
    stop: Array


class DRFAReply(NamedTuple):
    """How the client's model had changed at the end, and at the snapshot."""

    change: Array
    snapshot: Array


def first_hub(fed: FedView, key: Array) -> MixtureHub:
    """A fresh model inside the constraint set, and equal weights."""
    model = fed.prox(fed.init_model(key), 1.0)
    weights = jnp.full(fed.n, 1 / fed.n, fed.layout.dtype)
    return MixtureHub(model, weights, Averages(model, weights, jnp.zeros((), jnp.int32)))


def next_hub(
    hub: MixtureHub, model: Array, weights: Array, iterate: Array
) -> tuple[MixtureHub, MixtureShown]:
    """The hub after a round; `iterate` is the model that counts in the average."""
    averages = hub.averages.including(iterate, hub.weights)
    return MixtureHub(model, weights, averages), MixtureShown(weights, averages.weights)


def mean_by_lambda(
    method: Callable,
    message: Tree,
    weights: Array,
    fed: FedView,
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
    replies = yield ask(method, message, to=asked)
    return replies.sum(weights * replies.cohort.scale(fed.n))


def losses_of_all(replies: Replies, n: int) -> Array:
    """v: n / m times the loss of each of the m clients that answered, and 0 for the others.

    Where every set of m clients is equally likely, its mean is the vector of all clients' losses.
    """
    return replies.cohort.scale(n) * replies.scatter(n)
