"""How the simulator answers an ask: gather the cohort's states, map the method, scatter back."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.errors import ProtocolError
from fedloom.oracles import AnyOracle
from fedloom.population import Federation, Group, Party
from fedloom.protocol import Algorithm, Ask, Cohort, Replies
from fedloom.pytrees import check_alike
from fedloom.rounds.parts import Plan, is_static, map_group
from fedloom.types import Array, Held, Tree


class Slots(NamedTuple):
    """The part of a cohort that falls into one group."""

    places: Held  # (c,) positions in the cohort
    clients: Held  # (c,) which clients of the group
    present: Held  # (c,)


def answer(
    algorithm: Algorithm,
    federation: Federation,
    states: tuple[Tree, ...],
    request: Ask,
    root: Array,
    round: Array | int,
    exchange: int,
    plan: Plan,
) -> tuple[tuple[Tree, ...], Replies]:
    """Let the clients of a cohort run a method; returns their new states and the replies."""
    _check(request, states)

    def take_place() -> tuple[tuple[Tree, ...], Tree]:
        changed, parts = [], []
        for group, state in zip(federation.groups, states, strict=True):
            slots = _slots(request.to, group, federation.fed.n)
            new, reply = _run(algorithm, group, state, request, slots, root, round, exchange, plan)
            changed.append(new)
            parts.append((slots, reply))
        return tuple(changed), _merge(parts, request.to)

    if request.when is True:
        states, value = take_place()
        return states, Replies(value, request.to)
    shape = jax.eval_shape(take_place)[1]
    states, value = jax.lax.cond(
        request.when,
        take_place,
        lambda: (states, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)),
    )
    present = jnp.logical_and(request.to.present, request.when)
    return states, Replies(value, dataclasses.replace(request.to, present=present))


def _run(
    algorithm: Algorithm,
    group: Group | Party,
    state: Tree,
    request: Ask,
    slots: Slots,
    root: Array,
    round: Array | int,
    exchange: int,
    plan: Plan,
) -> tuple[Tree, Tree]:
    """One group's part of an exchange."""
    ids = slots.clients if group.members is None else jnp.asarray(group.members)[slots.clients]
    client_keys = jax.vmap(lambda id: draws.client_key(root, round, exchange, id))(jnp.asarray(ids))
    whole_group = is_static(slots.clients) and np.array_equal(slots.clients, np.arange(group.size))
    before = state if whole_group else _taken(state, slots.clients)

    def work(
        common: Tree, f: AnyOracle, _: Array, client: Tree, key: Array, *own: Tree
    ) -> tuple[Tree, Tree]:
        algorithm, *shared = common
        (message,) = own or shared
        after, reply = algorithm.perform(request.method, client, message, f, key)
        told = f"{request.method} must return the client's state as it got it"
        check_alike(told, client, after, "client")
        return after, reply

    per_client: tuple[Tree, ...] = (slots.clients, before, client_keys)
    common: tuple[Tree, ...] = (algorithm, request.message)
    if request.each:
        common = (algorithm,)
        per_client += (jax.tree.map(lambda stack: stack[slots.places], request.message),)
    after, reply = map_group(group, work, plan, common, *per_client)
    if is_static(slots.present) and np.all(slots.present):
        if whole_group:
            return after, reply
        return jax.tree.map(lambda s, a: s.at[slots.clients].set(a), state, after), reply
    target = jnp.where(slots.present, slots.clients, group.size)  # an absent client keeps its state
    return jax.tree.map(functools.partial(_put, target), state, after), reply


def _taken(state: Tree, clients: Held) -> Tree:
    """The states of some clients, all read before any is written.

    Left alone, XLA reads a state where it is used, which may be after the new one is written, and
    then keeps a copy of all clients' states in every round. It cannot look into this branch, and
    client numbers are never below zero.
    """
    if not jax.tree.leaves(state):
        return state
    clients = jnp.asarray(clients)

    def some() -> Tree:
        return jax.tree.map(lambda s: s[clients], state)

    def none() -> Tree:
        return jax.tree.map(lambda s: jnp.zeros((len(clients), *s.shape[1:]), s.dtype), state)

    return jax.lax.cond(clients[0] >= 0, some, none)


def _slots(cohort: Cohort, group: Group | Party, n: int) -> Slots:
    """The members of a group among a cohort, in as many slots as could be needed at most."""
    size = len(cohort)
    if group.members is None:
        return Slots(np.arange(size), cohort.ids, cohort.present)
    position = np.full(n, group.size, np.int32)
    position[list(group.members)] = np.arange(group.size)
    if is_static(cohort.ids):
        places = np.flatnonzero(position[cohort.ids] < group.size)
        return Slots(places, position[cohort.ids[places]], cohort.present[places])
    index = jnp.asarray(position)[cohort.ids]
    present = jnp.logical_and(cohort.present, index < group.size)
    first = jnp.argsort(~present, stable=True)[: min(size, group.size)]
    return Slots(first, jnp.minimum(index[first], group.size - 1), present[first])


def _merge(parts: list[tuple[Slots, Tree]], cohort: Cohort) -> Tree:
    """The replies of all groups, in the order of the cohort."""
    if len(parts) == 1:
        return parts[0][1]
    size = len(cohort)
    if all(is_static(s.places) and is_static(s.present) and s.present.all() for s, _ in parts):
        order = np.argsort(np.concatenate([slots.places for slots, _ in parts]))
        in_order = np.array_equal(order, np.arange(size))

        def join(*values: Array) -> Array:
            joined = jnp.concatenate(values)
            return joined if in_order else joined[order]

        return jax.tree.map(join, *(reply for _, reply in parts))
    merged = jax.tree.map(lambda v: jnp.zeros((size, *v.shape[1:]), v.dtype), parts[0][1])
    for slots, reply in parts:
        target = jnp.where(slots.present, slots.places, size)
        merged = jax.tree.map(functools.partial(_put, target), merged, reply)
    return merged


def _put(target: Array, whole: Array, part: Array) -> Array:
    return whole.at[target].set(part, mode="drop")


def _check(request: Ask, states: tuple[Tree, ...]) -> None:
    if not isinstance(request, Ask):
        raise ProtocolError(
            f"a round may only yield ask(...); it yielded {type(request).__name__}. "
            f"Write `replies = yield ask(self.method, message, to=cohort)`."
        )
    if request.each:
        _check_stack(request)
    if request.to.repeats and jax.tree.leaves(states):
        raise ProtocolError(
            f"{request.method}: the cohort may repeat a client, but clients keep state. "
            f"Draw without replacement, or keep no client state."
        )


def _check_stack(request: Ask) -> None:
    """With each=True, a message needs an entry for each slot, and no client may occur twice."""
    if request.to.repeats:
        raise ProtocolError(
            f"{request.method}: the cohort may repeat a client, which cannot get two messages at "
            f"once. Draw without replacement, or send all the same message."
        )
    for leaf in jax.tree.leaves(request.message):
        if jnp.shape(leaf)[:1] != (len(request.to),):
            raise ProtocolError(
                f"{request.method}: with each=True, arrays of the message need a first axis with "
                f"an entry for each of the {len(request.to)} slots of the cohort; one has the "
                f"shape {jnp.shape(leaf)}. Stack one message for each."
            )
