"""Rounds as one compiled program: the generator is traced once, the loop runs on the device."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.cohorts import Replies
from fedloom.population import Federation, Group, Party
from fedloom.protocol import Algorithm, Ask, Round, at_round, outcome_of
from fedloom.pytrees import check_alike, payload_bytes, shapes
from fedloom.rounds.mapping import answer
from fedloom.rounds.parts import Plan, map_group
from fedloom.types import Array, Held, Tree


class State(NamedTuple):
    """All that the next round needs."""

    round: Any  # how many rounds are done
    hub: Tree
    clients: tuple[Tree, ...]  # for each group, the states of its clients on a leading axis


class Traffic(NamedTuple):
    """For each exchange of a round: the bytes of one message each way, and how many were sent."""

    bytes_down: Held
    bytes_up: Held
    messages: Held


class Outcome(NamedTuple):
    """What a block of rounds leaves behind."""

    hub: Tree
    clients: tuple[Tree, ...]
    info: Tree  # of the last round
    traffic: Traffic  # summed over the rounds
    diverged: Array  # the first round after which the hub's state was not finite; 0 if none


def drive(
    steps: Round,
    algorithm: Algorithm,
    federation: Federation,
    clients: tuple[Tree, ...],
    root: Array,
    round: Array | int,
    plan: Plan,
) -> tuple[Tree, tuple[Tree, ...], Tree, Traffic]:
    """Run one generator to its end, answering each of its asks by mapping over clients."""
    down: list[int] = []
    up: list[int] = []
    messages: list[Array] = []
    try:
        request = next(steps)
        while True:
            clients, replies = answer(
                algorithm, federation, clients, request, root, round, len(down) + 1, plan
            )
            down.append(payload_bytes(request.message_to(0)))
            up.append(payload_bytes(jax.tree.map(lambda v: v[0], replies.value)))
            messages.append(replies.cohort.messages())
            request = _go_on(steps, request, replies)
    except StopIteration as end:
        hub, info = outcome_of(steps, end.value)
    counts = jnp.stack(messages) if messages else jnp.zeros(0, int)
    return hub, clients, info, Traffic(np.array(down, int), np.array(up, int), counts)


def _go_on(steps: Round, request: Ask, replies: Replies) -> Ask:
    """Hand replies to a round; a note on an error of the round's code says what they were."""
    try:
        return steps.send(replies)
    except (TypeError, ValueError) as error:
        one = jax.tree.map(lambda value: value[0], replies.value)
        error.add_note(f"There, each reply to {request.method} was {shapes(one, 'reply')}.")
        raise


def first_state(
    algorithm: Algorithm, federation: Federation, root: Array, plan: Plan
) -> tuple[Tree, tuple[Tree, ...]]:
    """The states of hub and clients before the opening."""
    algorithm = at_round(algorithm, 0)
    hub = algorithm.init_hub(federation.fed, draws.first_hub_key(root))

    def of(group: Group | Party) -> Tree:
        index = np.arange(group.size)
        ids = jnp.arange(group.size) if group.members is None else jnp.asarray(group.members)
        client_keys = jax.vmap(lambda id: draws.first_client_key(root, id))(ids)
        work = lambda algorithm, f, _, key: algorithm.init_client(f, key)  # noqa: E731
        return map_group(group, work, plan, algorithm, index, client_keys)

    return hub, tuple(map(of, federation.groups))


def opening(
    algorithm: Algorithm, federation: Federation, root: Array, plan: Plan
) -> tuple[Tree, tuple[Tree, ...], Traffic]:
    """The first states, and the exchanges that a method needs once."""
    hub, clients = first_state(algorithm, federation, root, plan)
    algorithm = at_round(algorithm, 0)
    steps = algorithm.opening(hub, federation.fed, draws.hub_key(root, 0))
    hub, clients, _, traffic = drive(steps, algorithm, federation, clients, root, 0, plan)
    return hub, clients, traffic


def rounds(
    algorithm: Algorithm,
    federation: Federation,
    hub: Tree,
    clients: tuple[Tree, ...],
    root: Array,
    start: Array,
    stop: Array,
    plan: Plan,
) -> Outcome:
    """Rounds start+1 .. stop. Their number is not a part of the program: one compilation does."""

    @functools.partial(jax.jit, inline=True)
    def one(hub: Tree, clients: tuple[Tree, ...], round: Array) -> tuple[Tree, ...]:
        now = at_round(algorithm, round)
        steps = now.round(hub, federation.fed, draws.hub_key(root, round))
        after = drive(steps, now, federation, clients, root, round, plan)
        told = f"{type(algorithm).__name__}.round must return the hub's state as it got it"
        check_alike(told, hub, after[0], "hub")
        return after

    def body(done: Array, outcome: Outcome) -> Outcome:
        round = done + 1
        hub, clients, info, traffic = one(outcome.hub, outcome.clients, round)
        sent = outcome.traffic.messages + traffic.messages
        diverged = jnp.where((outcome.diverged == 0) & ~_finite(hub), round, outcome.diverged)
        return Outcome(hub, clients, info, traffic._replace(messages=sent), diverged)

    # The loop carries what the last round showed, so its shape must be known beforehand. Traced as
    # one function, the round is not traced again for the loop.
    shapes = jax.eval_shape(one, hub, clients, start)
    info, traffic = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes[2:])
    nothing = Outcome(hub, clients, info, traffic, jnp.zeros((), start.dtype))
    return jax.lax.fori_loop(start, stop, body, nothing)


def _finite(tree: Tree) -> Array:
    flags = [
        jnp.isfinite(leaf).all()
        for leaf in jax.tree.leaves(tree)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    return functools.reduce(jnp.logical_and, flags, jnp.array(True))
