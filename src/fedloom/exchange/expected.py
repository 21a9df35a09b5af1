"""What is said in a run, worked out beforehand: each exchange's method, message and reply.

Hub and site each derive it from the settings alone, by abstract evaluation, so that either end
knows what may come from the other before a byte has travelled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.population import Federation
from fedloom.protocol import Algorithm, Ask, Replies, Round, relay
from fedloom.rounds import program
from fedloom.rounds.mapping import Plan
from fedloom.types import Tree

STAGES = ("opening", "round")
_PLAN = Plan(None, None)


class Expected(NamedTuple):
    """One exchange: what goes down to a client and what comes up, as shapes and dtypes."""

    method: str
    clients: int  # slots of the cohort
    occasion: str  # when it takes place, if not in every round
    message: Tree
    reply: Tree
    uniform: bool  # whether every cohort of this size was equally likely


Expectations = dict[str, tuple[Expected, ...]]  # by stage


def expected_exchanges(algorithm: Algorithm, federation: Federation) -> Expectations:
    """The exchanges of the opening and of a round; the federation's rows may be mere shapes."""
    return {stage: exchanges(algorithm, federation, stage) for stage in STAGES}


def exchanges(
    algorithm: Algorithm, federation: Federation, stage: str = "round"
) -> tuple[Expected, ...]:
    """The exchanges of one stage."""
    heard: list[Expected] = []

    def spied(steps: Round) -> Round:
        asked: list[Ask] = []

        def outgoing(request: Ask) -> Ask:
            asked.append(request)
            return request

        def incoming(replies: Replies) -> Replies:
            request = asked[-1]
            one = jax.tree.map(lambda v: v[0], replies.value)
            heard.append(
                Expected(
                    request.method,
                    len(request.to),
                    request.occasion,
                    shapes(request.message),
                    shapes(one),
                    request.to.uniform,
                )
            )
            return replies

        return relay(steps, outgoing, incoming)

    def play(algorithm: Algorithm, federation: Federation) -> Tree:
        root = draws.key(0)
        hub, clients = program.first_state(algorithm, federation, root, _PLAN)
        begin: Callable[..., Round] = getattr(algorithm, stage)
        steps = spied(begin(hub, federation.fed, root))
        return program.drive(steps, algorithm, federation, clients, root, 0, _PLAN)[0]

    jax.eval_shape(play, algorithm, federation)
    return tuple(heard)


def shapes(tree: Tree) -> Tree:
    """The shapes and dtypes of a tree's arrays, without the arrays."""

    def of(leaf: Any) -> jax.ShapeDtypeStruct:
        typed = leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)
        return jax.ShapeDtypeStruct(typed.shape, typed.dtype)

    return jax.tree.map(of, tree)
