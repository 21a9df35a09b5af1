"""Differential privacy for whole clients: replies are clipped, and Gaussian noise is added.

    client     r <- r min(1, clip / |r|)              r: the whole reply as one vector
    at = "hub" (central; the hub is trusted, and what it publishes is private)
    hub        R = (sum_S r_i + N(0, (noise clip)^2 I)) / |S|
               the inner method gets R as the reply of every client of S
    at = "client" (local; private towards the hub as well)
    client     r <- r + N(0, (noise clip)^2 I)        before it leaves the client

McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private Recurrent Language Models", ICLR
2018, for one method and noise at the hub; here it stands around any method.

What is promised. Two federations are neighbours if the rows of one client are replaced by any
others. A sum of clipped replies then moves by at most 2 clip, so that an exchange is a Gaussian
mechanism with noise multiplier noise / 2. All exchanges of all rounds are composed, and a cohort
that is drawn uniformly without replacement is credited for its sampling (at = "hub" only, and only
as long as nobody learns who was drawn). `fedloom.measuring.privacy_ledger` has the accounting.

As the inner method sees nothing but R, whatever it does with the replies is covered, however it
weighs them. The price: at the hub, clients count alike, and a method that tells clients apart by
their replies (the losses of DRFA) no longer can; for those, at = "client".

What is clipped is the reply, which is a change of the model in most methods. Where a method sends
something else (the proximal points in the opening of FedDR), `clip` bounds that. A client that
occurs k times in a cohort is clipped at clip / k, so that it weighs no more than others. The
client's own state never leaves it and is not clipped. Metrics are for the researcher, and are not a
part of the promise.

Noise is made of floating point numbers of limited precision, whose last digits can say more than
the mathematics allows; this wrapper does not guard against an adversary who reads those.

Where clients keep controls or duals, clipped replies no longer match them exactly: the wrapped
method is then an approximation of the private one that a paper would write.
"""

import dataclasses
import os
import struct
from typing import Any

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.wrappers.base import Wrapper, check_horizontal, layers
from fedloom.algorithms.wrappers.robust import Robust
from fedloom.errors import ParameterError, ProtocolError
from fedloom.oracles import ClientOracle
from fedloom.parameters import Rule, at_least_zero, between, instance_of, one_of, param, positive
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Replies, Round, algorithm, relay
from fedloom.types import Array, Scalar, Tree

_NOISE = 0x9015E  # folded into keys, beside what the inner method draws
_WORDS = 4  # of 16 bits, which a float of any precision holds exactly

_secret = Rule(lambda v: isinstance(v, tuple) and len(v) == _WORDS, "not for settings files", None)


@algorithm
class Private(Wrapper):
    """Clipping and Gaussian noise, for any horizontal method."""

    inner: Algorithm = param(instance_of(Algorithm), "the method inside")
    clip: float = param(positive, "the largest length of a client's reply")
    noise: float = param(at_least_zero, "standard deviation of the noise, in units of clip")
    delta: float = param(between(0, 1), "the delta at which epsilon is computed", default=1e-5)
    at: str = param(one_of("hub", "client"), "who adds the noise", default="hub")
    secret: tuple[float, ...] = dataclasses.field(
        default=(0.0,) * _WORDS,
        repr=False,
        metadata={"rule": _secret, "doc": "set by `sealed`; zero: noise that a seed repeats"},
    )

    def __post_init__(self) -> None:
        check_horizontal(self)
        if self.at == "hub" and any(isinstance(layer, Robust) for layer in layers(self.inner)):
            raise ParameterError(
                "Private: with noise at the hub the method inside sees one noisy mean in the place "
                "of all replies, so that Robust has nothing to compare. Set at = 'client', or do "
                "without one of the two."
            )

    def opening(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The inner method's opening, its replies made private."""
        return (yield from self._relayed(self.inner.opening(hub, fed, key), fed, key))

    def round(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The inner method's round, its replies made private."""
        return (yield from self._relayed(self.inner.round(hub, fed, key), fed, key))

    def perform(
        self, method: str, client: Tree, message: Tree, f: ClientOracle, key: Array, /
    ) -> tuple[Tree, Tree]:
        """The inner method's work; its reply is clipped, and noisy where the client adds noise."""
        client, reply = self.inner.perform(method, client, message, f, key)
        _check_real(method, reply)
        reply = clipped(reply, self.clip)
        return client, self._with_noise(reply, key) if self.at == "client" else reply

    def _relayed(self, steps: Round, fed: Fed, key: Array) -> Round:
        if self.at == "client":
            return (yield from relay(steps))
        if getattr(fed.problem, "weights", "equal") != "equal":
            raise ParameterError(
                "Private: with noise at the hub all clients count alike; the problem weighs them "
                "by size. Set weights = 'equal' in the problem, or at = 'client'."
            )
        exchanges = 0

        def incoming(replies: Replies) -> Replies:
            nonlocal exchanges
            exchanges += 1
            return self._pooled(replies, draws.fold(key, exchanges))

        return (yield from relay(steps, incoming=incoming))

    def _pooled(self, replies: Replies, key: Array) -> Replies:
        """The noisy mean, in the place of every reply."""
        ids, present = jnp.asarray(replies.cohort.ids), jnp.asarray(replies.cohort.present)
        times = jnp.ones(len(replies.cohort), int)
        if replies.cohort.repeats:
            times = ((ids[:, None] == ids[None, :]) & present[None, :]).sum(1)
        # Clipped once more: a compressor on the way may have made a reply longer.
        value = jax.vmap(clipped)(replies.value, self.clip / jnp.maximum(times, 1))
        replies = Replies(value, replies.cohort)
        arrived = jnp.maximum(present.sum(), 1)
        noisy = self._with_noise(replies.sum(), key)

        def everywhere(total: Array, slots: Array) -> Array:
            return jnp.broadcast_to(total / arrived.astype(total.dtype), slots.shape)

        return Replies(jax.tree.map(everywhere, noisy, replies.value), replies.cohort)

    def _with_noise(self, tree: Tree, key: Array) -> Tree:
        """Gaussian noise on every number, from threefry under the secret and the exchange's key."""
        high = [jnp.asarray(word).astype(jnp.uint32) << 16 for word in self.secret[::2]]
        low = [jnp.asarray(word).astype(jnp.uint32) for word in self.secret[1::2]]
        words = jnp.stack([h | w for h, w in zip(high, low, strict=True)])
        own = jax.random.wrap_key_data(words, impl="threefry2x32")
        own = draws.fold(own, *jax.random.key_data(draws.fold(key, _NOISE)))
        leaves, structure = jax.tree.flatten(tree)
        noisy = [
            leaf + self.noise * self.clip * jax.random.normal(k, leaf.shape, leaf.dtype)
            for leaf, k in zip(leaves, jax.random.split(own, max(len(leaves), 1)), strict=False)
        ]
        return jax.tree.unflatten(structure, noisy)


def clipped(tree: Tree, bound: Scalar) -> Tree:
    """The arrays shortened to the length `bound` as one vector; zero where not finite."""
    squares = [(leaf * leaf).sum() for leaf in jax.tree.leaves(tree)]
    length = jnp.sqrt(sum(squares, start=jnp.zeros(())))
    factor = jnp.minimum(1, bound / jnp.where(length > 0, length, 1))
    # One reply that is not a number would otherwise tell all that this client sent it.
    sound = jnp.isfinite(length)
    return jax.tree.map(lambda v: jnp.where(sound, v * factor.astype(v.dtype), 0), tree)


def sealed(method: Algorithm) -> Algorithm:
    """The same method, with a secret of this machine for its noise.

    Seeds are known to all, and whoever knows the noise can take it off. The simulator lets a seed
    repeat it; where hub and clients are different machines, each seals the method for itself.
    """
    if not isinstance(method, Wrapper):
        return method
    changes: dict[str, Any] = {"inner": sealed(method.inner)}
    if isinstance(method, Private):
        words = struct.unpack(f"{_WORDS}H", os.urandom(2 * _WORDS))
        changes["secret"] = tuple(map(float, words))
    return dataclasses.replace(method, **changes)  # type: ignore[type-var]


def private_layer(method: Algorithm) -> Private | None:
    """The outermost privacy wrapper of a method; None where its replies are not private."""
    while isinstance(method, Wrapper) and not isinstance(method, Private):
        method = method.inner
    return method if isinstance(method, Private) else None


def _check_real(method: str, reply: Tree) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(reply):
        if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "reply"
            raise ProtocolError(
                f"Private clips and adds noise to real numbers; {name} in the reply to {method} "
                f"is {jnp.asarray(leaf).dtype}. Choose another method."
            )
