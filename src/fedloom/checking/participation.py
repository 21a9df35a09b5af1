"""Absent clients keep their state and count for nothing, and the method copes without them."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.checking.case import Case
from fedloom.checking.verdicts import BrokenLawError, Difference, same_bits
from fedloom.protocol import Ask, Replies, at_round, relay
from fedloom.pytrees import named, to_host
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Held, Tree

_PLAN = Plan(None, None)
_NONSENSE = 7.0  # what the place of a reply that did not come may hold


def _round_with_losses(case: Case) -> Callable[[Held, Held], Tree]:
    """One round, as a function of which replies are lost and of the values in their slots."""
    method, federation = case.method, case.federation()
    root = draws.key(3)

    def play(lost: Held, nonsense: Held) -> Tree:
        start, before, _ = program.opening(method, federation, root, _PLAN)
        answered = [jnp.zeros(len(case.trial.clients), bool)]

        def outgoing(request: Ask) -> Ask:
            ids = jnp.asarray(request.to.ids)
            present = jnp.logical_and(request.to.present, ~lost[ids])
            there = jnp.logical_and(present, request.when)
            answered[0] = answered[0].at[ids].max(there)
            return dataclasses.replace(request, to=dataclasses.replace(request.to, present=present))

        def incoming(replies: Replies) -> Replies:
            def fill(v: Array) -> Array:
                there = jnp.reshape(replies.cohort.present, (-1, *[1] * (v.ndim - 1)))
                return jnp.where(there, v, nonsense.astype(v.dtype))

            return Replies(jax.tree.map(fill, replies.value), replies.cohort)

        now = at_round(method, 1)
        begun = now.round(start, federation.fed, draws.hub_key(root, 1))
        steps = relay(begun, outgoing, incoming)
        hub, after, *_ = program.drive(steps, now, federation, before, root, 1, _PLAN)
        models = [method.model(state, federation.fed) for state in (start, hub)]
        return hub, models, before, after, answered[0]

    return jax.jit(play)


def spares_the_absent(case: Case) -> str:
    """A lost client keeps its state, changes nothing at the hub, and leaves it finite.

    Where everyone is lost in the first round, the model stays as it is; later it may move by the
    momentum that earlier replies gave it.
    """
    n = len(case.trial.clients)
    with jax.enable_x64(True):
        play = _round_with_losses(case)
        for lost in (np.arange(n) == 0, np.ones(n, bool)):
            _spares(case, play, lost)
    return "without one client, and without all"


def _spares(case: Case, play: Callable[[Held, Held], Tree], lost: np.ndarray) -> None:
    # Numbers of one kind, so that both are played by one program.
    hub, models, before, after, answered = to_host(play(lost, np.zeros(())))
    other = to_host(play(lost, np.full((), _NONSENSE)))[0]
    who = "everyone is lost" if lost.all() else "client 0 is lost"
    for members, old, new in zip(case.trial.groups(), before, after, strict=True):
        for place, i in enumerate(members):
            if not answered[i]:
                mine = [jax.tree.map(lambda leaf: leaf[place], s) for s in (old, new)]  # noqa: B023
                same_bits(
                    "a client that was not there must keep its state",
                    *mine,
                    root=f"client {i}",
                    where=f"round 1, in which {who}",
                )
    if lost.all() and not case.method.needs_everyone:
        same_bits(
            "the model moves in a round that nobody answers. Let the hub step by what the replies "
            "say and by nothing else, or look at cohort.present",
            *models,
            root="the model",
            where=f"round 1, in which {who}",
        )
    for name, leaf in named(hub, "hub").items():
        if not np.isfinite(leaf).all():
            raise BrokenLawError(
                f"the hub's state is not finite after a round in which {who}. Sums and means of "
                f"replies are zero where nothing arrived; divide by nothing that can be zero",
                Difference(name, "finite numbers", leaf[~np.isfinite(leaf)].ravel()[0].item()),
            )
    same_bits(
        "the hub uses the place of a reply that did not come, in which anything may stand. Use "
        "sum, mean, estimate or scatter of the replies, or look at cohort.present",
        hub,
        other,
        root="hub",
        where=f"round 1, in which {who}; 0 or {_NONSENSE:g} in the empty place",
    )
