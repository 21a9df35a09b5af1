"""Secure sums: where a hub needs nothing but sums of replies, sums are all that it gets."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.checking.case import Case
from fedloom.checking.verdicts import InapplicableError, close
from fedloom.errors import ProtocolError
from fedloom.exchange.secure.sums import Kinds, SummedReplies, sums_of
from fedloom.population import Federation
from fedloom.protocol import Algorithm, Replies, Round, at_round, relay
from fedloom.pytrees import to_host
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from fedloom.types import Tree

_PLAN = Plan(None, None)


def sums_suffice(case: Case) -> str:
    """A hub that is told sums only does what it does when it sees every reply."""
    with jax.enable_x64(True):
        federation = case.federation()
        try:
            taken = sums_of(case.method, federation)
        except ProtocolError as error:
            raise InapplicableError(str(error)) from None
        plays = [functools.partial(_play, seed=case.seed, taken=sums) for sums in (None, taken)]
        seen, told = (to_host(jax.jit(play)(case.method, federation)) for play in plays)
    close(
        "a hub that is told sums only (got) does something else than one that sees every reply",
        seen,
        told,
        tolerance=(1e-9, 1e-12),
        root="hub",
        where="after round 1",
    )
    kinds = sorted({kind for stage in taken.values() for kinds in stage for kind in kinds})
    return f"{' and '.join(kinds)} sums" if kinds else "nothing is summed"


def _play(
    method: Algorithm, federation: Federation, seed: int, taken: dict[str, tuple[Kinds, ...]] | None
) -> Tree:
    """The hub after the opening and one round; with `taken`, it is told these sums only."""
    root, fed = draws.key(seed), federation.fed
    hub, clients = program.first_state(method, federation, root, _PLAN)
    for number, stage in enumerate(("opening", "round")):
        now = at_round(method, number)
        steps: Round = getattr(now, stage)(hub, fed, draws.hub_key(root, number))
        if taken is not None:
            steps = _summing(steps, fed.weights, taken[stage])
        hub, clients, *_ = program.drive(steps, now, federation, clients, root, number, _PLAN)
    return hub


def _summing(steps: Round, weights: Any, taken: tuple[Kinds, ...]) -> Round:
    count = iter(taken)

    def incoming(replies: Replies) -> Any:
        kinds, there = next(count), jnp.asarray(replies.cohort.present)
        return SummedReplies(
            replies.cohort,
            replies.sum() if "plain" in kinds else None,
            replies.sum(weights) if "weighted" in kinds else None,
            jnp.where(there, jnp.asarray(weights)[replies.cohort.ids], 0).sum(),
        )

    return relay(steps, incoming=incoming)
