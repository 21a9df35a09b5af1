"""What is said in a run, worked out beforehand: each exchange's method, message and reply.

Hub and site each derive it from the settings alone, by abstract evaluation, so that either end
knows what may come from the other before a byte has travelled.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedloom.population import Federation
from fedloom.protocol import Algorithm, Ask, Replies, Round, relay
from fedloom.pytrees import pytree, static
from fedloom.rounds import keys, program
from fedloom.rounds.mapping import Plan
from fedloom.schedules import at_round
from fedloom.types import Tree

STAGES = ("opening", "round")
_PLAN = Plan(None, None)


@pytree
class Expected:
    """One exchange: what goes down to a client and what comes up, as shapes and dtypes."""

    message: Tree
    reply: Tree
    method: str = static()
    clients: int = static()  # slots of the cohort
    occasion: str = static()  # when it takes place, if not in every round
    uniform: bool = static()  # whether every cohort of this size was equally likely


Expectations = dict[str, tuple[Expected, ...]]  # by stage


def expected_exchanges(algorithm: Algorithm, federation: Federation) -> Expectations:
    """The exchanges of the opening and of a round; the federation's rows may be mere shapes."""
    return {stage: exchanges(algorithm, federation, stage) for stage in STAGES}


def exchanges(
    algorithm: Algorithm, federation: Federation, stage: str = "round"
) -> tuple[Expected, ...]:
    """The exchanges of one stage."""
    return _played.eval_shape(algorithm, federation, stage=stage)


@functools.partial(jax.jit, static_argnames="stage")  # never run: who asks again finds its trace
def _played(algorithm: Algorithm, federation: Federation, stage: str) -> tuple[Expected, ...]:
    heard: list[Expected] = []
    asked: list[Ask] = []

    def outgoing(request: Ask) -> Ask:
        asked.append(request)
        return request

    def incoming(replies: Replies) -> Replies:
        request = asked[-1]
        said = jax.tree.map(jnp.asarray, request.message)
        one = jax.tree.map(lambda v: v[0], replies.value)
        about = request.method, len(request.to), request.occasion, request.to.uniform
        heard.append(Expected(said, one, *about))
        return replies

    root = keys.root(0)
    algorithm = at_round(algorithm, 0)
    hub, clients = program.first_state(algorithm, federation, root, _PLAN)
    begin: Callable[..., Round] = getattr(algorithm, stage)
    steps = relay(begin(hub, federation.fed, root), outgoing, incoming)
    program.drive(steps, algorithm, federation, clients, root, 0, _PLAN)
    return tuple(heard)


def shapes(tree: Tree) -> Tree:
    """The shapes and dtypes of a tree's arrays, without the arrays."""

    def of(leaf: Any) -> jax.ShapeDtypeStruct:
        typed = leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)
        return jax.ShapeDtypeStruct(typed.shape, typed.dtype)

    return jax.tree.map(of, tree)
