"""What q-FedAvg and q-FedSGD share: the powers of a loss, and the hub's step."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import by_weight, uniform
from fedloom.oracles import FedView
from fedloom.parameters import one_of, param
from fedloom.protocol import Ask, Replies, ask
from fedloom.types import Array, Scalar

_OFFSET = 1e-10  # inside the powers, so that a loss of zero does no harm


class QFairHub(NamedTuple):
    """The global model."""

    model: Array


class Pull(NamedTuple):
    """A client's step before it is scaled, and its part of the curvature that scales the sum."""

    step: Array
    curvature: Array


def sampling_param() -> Any:
    """The field that says how clients are drawn."""
    return param(
        one_of("uniform", "by_weight"),
        "draw clients alike and add by weight, or draw by weight and add alike",
        default="uniform",
    )


def powers(loss: Array, q: Scalar) -> tuple[Array, Array]:
    """The weight f^q of a client, and its derivative by f."""
    loss = loss + _OFFSET
    return loss**q, q * loss ** (q - 1)


def scaled_step(
    method: Callable, hub: QFairHub, fed: FedView, key: Array, cohort: int | None, sampling: str
) -> Generator[Ask, Replies, Array]:
    """The sum of the steps over the sum of the curvatures; zero where no client answers."""
    if sampling == "by_weight":
        drawn = by_weight(key, fed.weights, cohort or fed.n)
        total = (yield ask(method, hub.model, to=drawn)).mean()
    else:
        asked = uniform(key, fed.n, cohort)
        total = (yield ask(method, hub.model, to=asked)).average(fed.weights)
    return total.step / jnp.where(total.curvature > 0, total.curvature, 1)
