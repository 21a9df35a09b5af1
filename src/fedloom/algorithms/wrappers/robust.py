"""Robust aggregation: means of replies that a few malicious clients cannot move at will.

    hub        every mean that the method takes of its replies becomes A(replies)

A is one of `fedloom.operators.aggregators`. It sees the whole reply of a client as one vector,
because a client is honest or not in all that it sends: where distances matter (Krum, the geometric
median, clipping), a part of a reply with large numbers counts for more than one with small numbers.

What the method gets. `mean`, `average`, `estimate` and `sum` give what they would give if every
client that is there had sent A by the same weights:

    mean()         A, all clients counting alike
    average(a)     A by the weights a
    sum(a)         (sum_S a_i) A by the weights a
    estimate(a)    (n / |S|) (sum_S a_i / sum a) A by the weights a

`map` comes before the aggregate, as it comes before a mean. Single replies are not shown: a method
whose hub looks at them is refused when it is traced, for whatever it did with them would not be
robust. A reply with a number that is not finite is dropped, as on a network. A client that occurs
k times in a cohort is one reply of k times the weight.

What is lost. A is not the mean, and is biased where honest clients differ. Where a hub adds up
changes of what clients keep (the controls of SCAFFOLD and CODASCA, the means of FedDR and FedADMM),
its sum is no longer the mean of what they keep, and the limit depends on the way there.

Not with secure aggregation: the hub would have to see single replies, and sees sums only.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedloom.algorithms.wrappers.base import Wrapper, check_horizontal, layers
from fedloom.errors import ParameterError, ProtocolError
from fedloom.operators.aggregators import Aggregator
from fedloom.parameters import instance_of, param
from fedloom.protocol import Algorithm, Ask, Cohort, Replies, Round, algorithm, relay

Array = Any
Tree = Any


@algorithm
class Robust(Wrapper):
    """Means that withstand malicious clients, in any method whose hub uses means."""

    inner: Algorithm = param(instance_of(Algorithm), "the method inside")
    aggregator: Aggregator = param(instance_of(Aggregator), "what is taken in the place of a mean")

    def __post_init__(self) -> None:
        check_horizontal(self)
        if isinstance(self.inner, Wrapper):
            other = type(self.inner).__name__
            raise ParameterError(
                f"Robust stands next to the method, because what other wrappers do to single "
                f"replies comes first; got {other} inside it. Turn them round: {other}(Robust("
                f"...)), or in a settings file put the table of Robust first."
            )

    def opening(self, hub: Tree, fed: Any, key: Array, /) -> Round:
        """The inner method's opening, with robust means."""
        return (yield from self._relayed(self.inner.opening(hub, fed, key)))

    def round(self, hub: Tree, fed: Any, key: Array, /) -> Round:
        """The inner method's round, with robust means."""
        return (yield from self._relayed(self.inner.round(hub, fed, key)))

    def _relayed(self, steps: Round) -> Round:
        asked: list[str] = []

        def outgoing(request: Ask) -> Ask:
            asked.append(request.method)
            self.aggregator.check(len(request.to))
            return request

        def incoming(replies: Replies) -> Any:
            return Aggregated(replies, self.aggregator, type(self.inner).__name__, asked[-1])

        return (yield from relay(steps, outgoing, incoming))


def check_not_summed(algorithm: Algorithm) -> None:
    """Refuse a method whose replies would be summed before the hub can compare them."""
    if any(isinstance(layer, Robust) for layer in layers(algorithm)):
        raise ProtocolError(
            "robust aggregation compares single replies, and with secure aggregation the hub "
            "learns nothing but their sum, in which a false reply cannot be told from the others. "
            "Take away the wrapper of kind 'robust', or set secure_aggregation = false."
        )


class Aggregated:
    """Replies of which nothing can be had but robust means."""

    def __init__(self, replies: Replies, aggregator: Aggregator, owner: str, asked: str):
        self._aggregator, self._owner, self._asked = aggregator, owner, asked
        self._replies = replies
        self._known: list[tuple[Array | None, Tree]] = []  # aggregates, by their weights
        leaves = jax.tree.leaves(replies.value)
        if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
            raise ProtocolError(
                f"Robust is for replies of real numbers; those to {asked!r} of {owner} are not all "
                f"real. Choose another method."
            )
        cohort = replies.cohort
        flat = jax.vmap(lambda reply: ravel_pytree(reply)[0], axis_size=len(cohort))
        self._rows = flat(replies.value)
        sound = jnp.isfinite(self._rows).all(1)
        present = jnp.logical_and(cohort.present, sound)
        self.cohort = Cohort(cohort.ids, present, cohort.repeats, cohort.uniform)
        self._ones = Replies(jnp.ones(len(cohort)), self.cohort)

    def sum(self, weights: Array | None = None) -> Tree:
        """The aggregate by these weights, times their sum over who is there."""
        return self._times(self._ones.sum(weights), weights)

    def mean(self) -> Tree:
        """The aggregate, all clients counting alike."""
        return self.average(None)

    def average(self, weights: Array | None) -> Tree:
        """The aggregate by these weights."""
        return self._times(self._ones.average(weights), weights)

    def estimate(self, weights: Array) -> Tree:
        """The aggregate by these weights, times what makes its weight that of all clients."""
        return self._times(self._ones.estimate(weights), weights)

    def map(self, function: Any) -> "Aggregated":
        """Each reply passed through a function, before any aggregate is taken."""
        passed = self._replies.map(function)
        return Aggregated(passed, self._aggregator, self._owner, self._asked)

    def _times(self, factor: Array, weights: Array | None) -> Tree:
        return jax.tree.map(lambda v: factor.astype(v.dtype) * v, self._aggregate(weights))

    def _aggregate(self, weights: Array | None) -> Tree:
        """One for each vector of weights: a reply is trusted in all its parts or in none."""
        for known, found in self._known:
            if known is weights:
                return found
        present, ids = self.cohort.present, jnp.asarray(self.cohort.ids)
        shares = jnp.ones(len(ids)) if weights is None else jnp.asarray(weights)[ids]
        if self.cohort.repeats:
            same = (ids[:, None] == ids[None, :]) & present[None, :]
            shares = shares * same.sum(1)
            present = present & ~jnp.tril(same, -1).any(1)
        row = self._aggregator(self._rows, shares, present)
        unravel = ravel_pytree(jax.tree.map(lambda v: v[0], self._replies.value))[1]
        found = unravel(row)
        self._known.append((weights, found))
        return found

    def __getattr__(self, name: str) -> Any:
        raise ProtocolError(
            f"Robust is for methods whose hub uses nothing but means of replies: the hub of "
            f"{self._owner} looks at single replies to {self._asked!r}, by .{name}, and a "
            f"malicious one would have its way there. Choose another method."
        )
