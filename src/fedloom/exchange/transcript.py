"""What a round says to whom, in bytes, without running it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.exchange.expected import exchanges
from fedloom.population import Federation
from fedloom.protocol import Algorithm
from fedloom.pytrees import payload_bytes
from fedloom.types import Tree


class Exchange(NamedTuple):
    """One exchange of a round."""

    method: str
    clients: int  # slots of the cohort
    occasion: str  # when it takes place, if not in every round
    down: dict[str, int]  # bytes of each array that the hub sends to a client
    up: dict[str, int]  # bytes of each array that a client sends back
    uniform: bool = False  # whether the cohort was drawn uniformly without replacement


def transcript(
    algorithm: Algorithm, federation: Federation, stage: str = "round"
) -> list[Exchange]:
    """The exchanges of a round, or of the opening, by abstract evaluation."""
    leaves, structure = jax.tree.flatten((algorithm, federation))
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    key = (stage, structure, shapes)
    if key not in _known:
        _known[key] = _transcript(algorithm, federation, stage)
    return list(_known[key])


_known: dict[Any, list[Exchange]] = {}  # exchanges depend on shapes alone, so they are kept


def _transcript(algorithm: Algorithm, federation: Federation, stage: str) -> list[Exchange]:
    return [
        Exchange(
            said.method,
            said.clients,
            said.occasion,
            _sizes(said.message),
            _sizes(said.reply),
            said.uniform,
        )
        for said in exchanges(algorithm, federation, stage)
    ]


def _sizes(tree: Tree) -> dict[str, int]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "value": payload_bytes(leaf)
        for path, leaf in leaves
    }
