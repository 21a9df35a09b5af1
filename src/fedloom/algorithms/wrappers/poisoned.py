"""Poisoned replies: some clients lie, to test how a method and its aggregation cope.

    malicious      clients 0 .. fraction * n - 1, rounded, in every exchange of every round
    sign_flip      r <- - size r
    scaled         r <- size r
    same_value     r <- size in every number, as if they had agreed on it

The lies are put into the replies where they reach the hub, so that both engines see the same. The
clients themselves work as honest ones do, and their own state is honest. Clients that lie by their
data, such as by flipped labels, need no wrapper: give them such rows.
"""

import jax
import jax.numpy as jnp

from fedloom.algorithms.wrappers.base import Wrapper, check_horizontal
from fedloom.parameters import fraction, instance_of, one_of, param, positive
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Replies, Round, algorithm, relay
from fedloom.types import Array, Tree


@algorithm
class Poisoned(Wrapper):
    """A fraction of the clients sends false replies; for any horizontal method."""

    inner: Algorithm = param(instance_of(Algorithm), "the method inside")
    attack: str = param(one_of("sign_flip", "scaled", "same_value"), "what malicious clients send")
    fraction: float = param(fraction, "part of the clients that are malicious", default=0.2)
    size: float = param(
        positive, "factor of a flipped or scaled reply, or the same value", default=10.0
    )

    def __post_init__(self) -> None:
        check_horizontal(self)

    def opening(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The inner method's opening, with false replies."""
        return (yield from self._relayed(self.inner.opening(hub, fed, key), fed))

    def round(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The inner method's round, with false replies."""
        return (yield from self._relayed(self.inner.round(hub, fed, key), fed))

    def _relayed(self, steps: Round, fed: Fed) -> Round:
        def incoming(replies: Replies) -> Replies:
            malicious = jnp.asarray(replies.cohort.ids) + 0.5 < self.fraction * fed.n

            def told(v: Array) -> Array:
                there = malicious.reshape(-1, *[1] * (v.ndim - 1))
                return jnp.where(there, self._lie(v).astype(v.dtype), v)

            return Replies(jax.tree.map(told, replies.value), replies.cohort)

        return (yield from relay(steps, incoming=incoming))

    def _lie(self, v: Array) -> Array:
        if self.attack == "same_value":
            return jnp.full(v.shape, self.size)
        return self.size * v if self.attack == "scaled" else -self.size * v
