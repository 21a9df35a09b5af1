"""What a round sends to whom, in bytes, found without running it."""

from typing import NamedTuple

import jax

from fedloom.exchange.expected import expected_exchanges
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
    return [
        Exchange(
            said.method,
            said.clients,
            said.occasion,
            _sizes(said.message),
            _sizes(said.reply),
            said.uniform,
        )
        for said in expected_exchanges(algorithm, federation)[stage]
    ]


def _sizes(tree: Tree) -> dict[str, int]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "value": payload_bytes(leaf)
        for path, leaf in leaves
    }
