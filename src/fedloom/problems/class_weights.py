"""Weights of classes: what a row of a rare class counts in the loss.

The loss of a row of class c is multiplied by its weight. "balanced" stands for n / (k n_c), with n
the rows of all clients, n_c those of class c among them and k the number of classes, as in
scikit-learn: every class then counts the same in the sum over all rows. The counts are those that
clients tell before the first round; with weights = "size" of clients the problem is the one that
scikit-learn poses on the pooled rows.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.parameters import Rule, param, positive
from fedloom.types import Array, Held

BALANCED = "balanced"
ClassWeights = str | Sequence[float] | None

_rule = Rule(
    lambda v: (
        v == BALANCED
        if isinstance(v, str)
        else isinstance(v, tuple) and len(v) > 1 and all(map(positive.holds, v))
    ),
    f'"{BALANCED}", or a list with a number > 0 for each class',
    BALANCED,
    {
        "anyOf": [
            {"const": BALANCED},
            {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 2},
        ]
    },
)


def class_weights_param() -> Any:
    """The field for the weights of classes, in the order of the classes."""
    doc = "what a row of each class counts in the loss"
    return param(_rule.or_none("all the same"), doc, default=None)


def agreed(owner: str, weights: ClassWeights, clients: Any) -> tuple[float, ...]:
    """The weights as numbers, of which "balanced" ones follow from the clients' counts.

    A class that no client trains on weighs 1.
    """
    if weights != BALANCED:
        return _check(owner, weights, clients.classes)
    counts = np.zeros(clients.classes)
    for i in range(len(clients)):
        counts += np.bincount(np.ravel(clients.of(i).y), minlength=clients.classes)
    there = counts > 0
    balanced = np.where(there, counts.sum() / (there.sum() * np.maximum(counts, 1)), 1)
    return tuple(balanced.tolist())


def _check(owner: str, weights: ClassWeights, classes: int) -> tuple[float, ...]:
    if isinstance(weights, str) or weights is None or len(weights) != classes:
        raise ParameterError(
            f"{owner}: class_weights must have a number for each of the {classes} classes of the "
            f"data; got {weights!r}. Give one for each, or leave it out."
        )
    return tuple(map(float, weights))


def influences(weights: ClassWeights) -> tuple[float, ...] | None:
    """The weights where clients agreed on numbers."""
    return None if weights is None or isinstance(weights, str) else tuple(map(float, weights))


def weighed(owner: str, weights: str | Sequence[float], losses: Array, labels: Held) -> Array:
    """The losses of labels, each times the weight of its class."""
    if isinstance(weights, str):
        raise ParameterError(
            f"{owner}: class_weights must be numbers to take a loss; got {weights!r}. Give "
            f"numbers, or let problem.agree(clients) count."
        )
    return jnp.asarray(tuple(weights), losses.dtype)[labels] * losses
