"""The smooth objective of a vertical federation, as a function of all parties' shares of a model.

Nobody in a federation can compute it alone; it serves metrics and reference solutions.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fedloom.population import Federation
from fedloom.types import Array


def smooth(federation: Federation, vector: Array) -> Array:
    """The objective without the regulariser."""
    return values(federation, split(federation, vector))["smooth"]


def values(federation: Federation, shares: Sequence[Array]) -> dict[str, Any]:
    """The summed scores of the training rows, the parties' parts of them, and the smooth value."""
    fed = federation.label_party
    parties = [party.objective(0) for party in federation.groups]
    products = [f.forward(x) for f, x in zip(parties, shares, strict=True)]
    fitted = total(products)
    penalty = total([f.penalty(x) for f, x in zip(parties, shares, strict=True)])
    return {
        "fitted": fitted,
        "contributions": jnp.stack([jnp.linalg.norm(product) for product in products]),
        "smooth": fed.loss.value(fitted) + penalty,
    }


def split(federation: Federation, vector: Array) -> list[Array]:
    """The parties' shares of a joint vector."""
    fed = federation.label_party
    shares: dict[int, Array] = {}
    start = 0
    for i in fed.order:
        size = federation.groups[i].layout.size
        shares[i] = vector[start : start + size]
        start += size
    return [shares[i] for i in range(len(federation.groups))]


def total(parts: Sequence[Array]) -> Array:
    """The sum of arrays."""
    return functools.reduce(jnp.add, parts)
