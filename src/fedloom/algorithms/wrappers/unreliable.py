"""Unreliable clients: some are away for a round, some answer too late.

    each round      every client is away with probability drop: it gets no message, does no work
                    and keeps its state, in all exchanges of the round
    each exchange   the reply of a client that is there is late with probability late: the client
                    has done its work and moved its state on, and the hub does without the reply

The two differ for methods whose clients keep state: after a late reply, hub and client disagree on
what was said. A late reply costs its bytes. The opening of a method waits for everyone.

What the limit is. All clients are lost alike, so that those who answer are a uniform draw, and a
round in which nobody does leaves the hub as it was: methods without client state keep the limit
that they have with a cohort, and so do methods with state while clients are only away. A late reply
that a method adds to a mean of all clients (SCAFFOLD, Scaffnew, FedDyn, CODASCA, FedDR, FedADMM,
FedCanon, FFMDR) is missing there for good, and the limit moves. A method that draws by weight with
replacement leans to small weights, by a factor below 1 / (1 - drop), since a client that was drawn
twice is lost twice. DecoupledProx needs a cohort, be it of all.
"""

import dataclasses

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.wrappers.base import Wrapper, check_horizontal
from fedloom.parameters import fraction, instance_of, param
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Ask, Cohort, Replies, Round, algorithm, relay
from fedloom.types import Array, Tree

_AWAY, _LATE = 0xA4A1, 0x1A7E  # folded into the round's key, beside what the inner method draws


@algorithm
class Unreliable(Wrapper):
    """Random drop-outs and stragglers, for any horizontal method."""

    inner: Algorithm = param(instance_of(Algorithm), "the method inside")
    drop: float = param(fraction, "probability that a client is away for a round", default=0.0)
    late: float = param(
        fraction,
        "probability that a reply misses the deadline after the client has done its work",
        default=0.0,
    )

    def __post_init__(self) -> None:
        check_horizontal(self)

    def round(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The inner method's round, with those who are there and in time."""
        away = jax.random.bernoulli(draws.fold(key, _AWAY), self.drop, (fed.n,))
        exchanges = 0

        def outgoing(request: Ask) -> Ask:
            return dataclasses.replace(request, to=_without(request.to, away))

        def incoming(replies: Replies) -> Replies:
            nonlocal exchanges
            exchanges += 1
            late = jax.random.bernoulli(draws.fold(key, _LATE, exchanges), self.late, (fed.n,))
            return Replies(replies.value, _without(replies.cohort, late))

        return (yield from relay(self.inner.round(hub, fed, key), outgoing, incoming))


def _without(cohort: Cohort, lost: Array) -> Cohort:
    """The cohort in which the clients marked in `lost`, one flag for each of all, are absent."""
    present = jnp.logical_and(cohort.present, ~lost[jnp.asarray(cohort.ids)])
    return dataclasses.replace(cohort, present=present)
