"""The smooth objective of a vertical federation, as a function of all parties' shares of a model.

Nobody in a federation can compute it alone; it serves metrics and reference solutions.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fedloom.population import Federation, LabelParty
from fedloom.types import Array


def smooth(federation: Federation, vector: Array) -> Array:
    """The objective without the regulariser."""
    return values(federation, split(federation, vector))["smooth"]


def values(federation: Federation, shares: Sequence[Array]) -> dict[str, Any]:
    """The scores of the training rows, the parties' parts of them, and the smooth value.

    The share after those of the parties, where there is one, is the fusion model.
    """
    fed = federation.label_party
    parties = [party.objective(0) for party in federation.groups]
    products = [f.forward(x) for f, x in zip(parties, shares, strict=False)]
    fusion = shares[len(parties) :]
    fitted = scores(fed, fusion, products)
    penalty = total([f.penalty(x) for f, x in zip(parties, shares, strict=False)])
    penalty = penalty + fusion_penalty(fed, fusion)
    return {
        "fitted": fitted,
        "contributions": jnp.stack([jnp.linalg.norm(product) for product in products]),
        "smooth": fed.loss.value(fitted) + penalty,
    }


def split(federation: Federation, vector: Array) -> list[Array]:
    """The parties' shares of a joint vector."""
    fed = federation.label_party
    sizes = [party.layout.size for party in federation.groups]
    sizes += [] if fed.fusion_layout is None else [fed.fusion_layout.size]
    shares: dict[int, Array] = {}
    start = 0
    for i in fed.order:
        shares[i] = vector[start : start + sizes[i]]
        start += sizes[i]
    return [shares[i] for i in range(len(sizes))]


def scores(fed: LabelParty, fusion: Sequence[Array], parts: Sequence[Array]) -> Array:
    """The scores of rows: the sum of the parties' parts, or what a fusion model makes of them."""
    return fed.fused(fusion[0], jnp.stack(parts)) if fusion else total(parts)


def fusion_penalty(fed: LabelParty, fusion: Sequence[Array]) -> Array | float:
    """The value (l2 / 2) |w|^2 of a fusion model, where there is one."""
    return 0.5 * fed.problem.l2 * (fusion[0] ** 2).sum() if fusion else 0.0


def total(parts: Sequence[Array]) -> Array:
    """The sum of arrays."""
    return functools.reduce(jnp.add, parts)
