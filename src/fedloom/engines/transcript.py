"""What a round says to whom, without running it: the messages, their sizes, and the cohort."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from fedloom.engines import block, keys
from fedloom.engines.mapping import Plan
from fedloom.federation import Federation
from fedloom.protocol import Algorithm, Ask, Replies, Round, payload_bytes, relay

Tree = Any
_PLAN = Plan(None, None)


class Exchange(NamedTuple):
    """One exchange of a round."""

    method: str
    clients: int  # slots of the cohort
    conditional: bool  # whether it may be left out
    down: dict[str, int]  # bytes of each array that the hub sends to a client
    up: dict[str, int]  # bytes of each array that a client sends back
    uniform: bool = False  # whether the cohort was drawn uniformly without replacement


def transcript(
    algorithm: Algorithm, federation: Federation, stage: str = "round"
) -> list[Exchange]:
    """The exchanges of a round, or of the opening, by abstract evaluation."""
    exchanges: list[Exchange] = []

    def spied(steps: Round) -> Round:
        asked: list[Ask] = []

        def incoming(replies: Replies) -> Replies:
            request = asked[-1]
            one = jax.tree.map(lambda v: v[0], replies.value)
            exchanges.append(
                Exchange(
                    request.method,
                    len(request.to),
                    request.when is not True,
                    _sizes(request.message),
                    _sizes(one),
                    request.to.uniform,
                )
            )
            return replies

        def outgoing(request: Ask) -> Ask:
            asked.append(request)
            return request

        return relay(steps, outgoing, incoming)

    def play() -> Tree:
        root = keys.root(0)
        hub, clients = block.first_state(algorithm, federation, root, _PLAN)
        begin: Callable[..., Round] = getattr(algorithm, stage)
        steps = spied(begin(hub, federation.fed, root))
        return block.drive(steps, algorithm, federation, clients, root, 0, _PLAN)[0]

    jax.eval_shape(play)
    return exchanges


def _sizes(tree: Tree) -> dict[str, int]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "value": payload_bytes(leaf)
        for path, leaf in leaves
    }
