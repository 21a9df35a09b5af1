"""Cohorts, the clients that take part in an exchange, and their replies.

Each function returns a `Cohort` for `ask(..., to=cohort)`. They draw clients in different ways, and
the way decides which mean of the `Replies` is unbiased.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.errors import ParameterError, ProtocolError
from fedloom.lazy import public
from fedloom.parameters import at_least, param
from fedloom.pytrees import pytree, static
from fedloom.types import Array, Held

__all__ = ["bernoulli", "by_weight", "cohort_param", "everyone", "uniform"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)

Reply = TypeVar("Reply")


@pytree
class Cohort:
    """The clients that an exchange goes to. Its size m is a constant; who is in it may be drawn.

    The functions of `fl.cohorts` make one.
    """

    ids: Held  # (m,): the numbers of the clients, from 0 to n - 1
    present: Held  # (m,): False for a client that dropped out, and for padding
    repeats: bool = static(default=False)  # may a client occur twice? then it must keep no state
    uniform: bool = static(default=False)  # was every set of this size equally likely to be drawn?

    def __len__(self) -> int:
        return self.ids.shape[0]

    def any(self) -> Array:
        """Whether at least one client is present; if not, a round must not change the hub."""
        return jnp.asarray(self.present).any()

    def scale(self, n: int) -> Array:
        """The factor n / m that makes a sum over the m present clients an estimate over all n.

        It is 0 where nobody is present. The estimate is unbiased where every set of m clients was
        equally likely.

        Args:
            n: How many clients the federation has.
        """
        there = jnp.asarray(self.present).sum()
        return jnp.where(there > 0, n / jnp.maximum(there, 1), 0)

    def messages(self) -> Array:
        """How many clients get a message; one that occurs twice gets one."""
        present = jnp.asarray(self.present)
        if not self.repeats:
            return present.sum()
        ids = jnp.where(present, self.ids, -1)
        earlier = jnp.tril(ids[:, None] == ids[None, :], -1).any(1)
        return (present & ~earlier).sum()


def cohort_param() -> Any:
    """Declare the field `cohort: int | None`: how many clients `uniform` draws; None: everyone."""
    return param(at_least(1).or_none("everyone"), "clients asked in a round", default=None)


def everyone(n: int) -> Cohort:
    """All clients, in their order.

    Args:
        n: How many there are, `fed.n`.
    """
    return Cohort(np.arange(n, dtype=np.int32), np.ones(n, bool))


def uniform(key: Array, n: int, size: int | None) -> Cohort:
    """Draw clients uniformly without replacement: every set of `size` clients is equally likely.

    `Replies.estimate` is unbiased over such a cohort.

    Args:
        key: The random key of the round.
        n: How many clients there are, `fed.n`.
        size: How many are drawn; None: everyone.
    """
    if size is None or size == n:
        return everyone(n)
    if size > n:
        raise ParameterError(
            f"cohort must be a whole number from 1 to the number of clients, {n}; got {size}. "
            f"Lower the cohort or leave it out to ask everyone."
        )
    return Cohort(draws.distinct(key, draws.domain(n), size), np.ones(size, bool), uniform=True)


def by_weight(key: Array, weights: Held, size: int) -> Cohort:
    """Draw clients with replacement, with probabilities in proportion to their weights.

    Over such a cohort `Replies.mean` is unbiased for the weighted mean over all clients. A client
    may be drawn twice, so this is for methods whose clients keep no state.

    Args:
        key: The random key of the round.
        weights: One for each client, such as `fed.weights`; they need not sum to one.
        size: How many draws.
    """
    ids = draws.weighted(key, jnp.asarray(weights), size)
    return Cohort(ids, np.ones(size, bool), repeats=True)


def bernoulli(key: Array, probabilities: Array | float, n: int) -> Cohort:
    """Let each client join independently, with a probability of its own; possibly none joins.

    Args:
        key: The random key of the round.
        probabilities: One for each client, or one for all.
        n: How many clients there are, `fed.n`.
    """
    joins = jax.random.uniform(key, (n,)) < jnp.broadcast_to(probabilities, (n,))
    return Cohort(np.arange(n, dtype=np.int32), joins)


@pytree
class Replies(Generic[Reply]):
    """The replies to an exchange, one for each client of the cohort.

    Sums and means leave out replies that did not arrive, so that a method needs no code for lost
    clients. Where nothing arrived they are zero: let clients reply with changes, not with models.
    Where a reply is a named tuple, so is its sum: `replies.sum().control`. Weights are those of all
    n clients, such as `fed.weights`, not of the cohort alone.
    """

    value: Reply  # the replies, stacked along a first axis of length m
    cohort: Cohort  # who was asked, and whose replies arrived

    def sum(self, weights: Held | None = None) -> Reply:
        """The sum of the replies that arrived, each times its client's weight.

        Args:
            weights: One for each of the n clients; None: 1 for all.
        """
        return self._combine(self._factors(weights))

    def mean(self) -> Reply:
        """The plain mean of the replies that arrived."""
        return self.average(None)

    def average(self, weights: Held | None) -> Reply:
        """The mean of the replies that arrived, by weight: sum_S a_i r_i / sum_S a_i.

        Args:
            weights: One for each of the n clients; None: the plain mean.
        """
        factors = self._factors(weights)
        total = factors.sum()
        return self._combine(factors / jnp.where(total > 0, total, 1))

    def estimate(self, weights: Held) -> Reply:
        """An unbiased estimate of the weighted mean over all clients: (n/m) sum_S a_i r_i.

        Here m is the number of replies that arrived. `average` divides by the weights that arrived
        instead. Over a random cohort that is a ratio of two random numbers, and biased: with one
        client in the cohort its weight cancels. Where all weights are equal, the two are the same.
        The replies must be changes, because (n/m) sum_S a_i need not be one.

        Args:
            weights: One for each of the n clients, such as `fed.weights`.

        Raises:
            ProtocolError: The cohort was drawn by weight; use `mean`, which is unbiased there.
        """
        if self.cohort.repeats:
            raise ProtocolError(
                "estimate is for cohorts in which every client is equally likely; this one was "
                "drawn by weight, and its plain mean is unbiased. Use mean()."
            )
        total = jnp.asarray(weights).astype(float).sum()
        factors = self._factors(weights) * self.cohort.scale(len(weights))
        return self._combine(factors / total)

    def map(self, function: Callable[[Any], Any]) -> "Replies":
        """The replies after a function was applied to each.

        Args:
            function: From one reply to a new one.
        """
        return Replies(jax.vmap(function)(self.value), self.cohort)

    def scatter(self, n: int) -> Reply:
        """The replies by client: an array of n rows, zero for clients without a reply.

        Replies of a client that occurs twice are added.

        Args:
            n: How many clients the federation has, `fed.n`.
        """
        slots = jnp.where(self.cohort.present, self.cohort.ids, n)
        return jax.tree.map(
            lambda v: jnp.zeros((n, *v.shape[1:]), v.dtype).at[slots].add(v, mode="drop"),
            self.value,
        )

    def _factors(self, weights: Held | None) -> Array:
        arrived = jnp.asarray(self.cohort.present).astype(float)
        return arrived if weights is None else arrived * jnp.asarray(weights)[self.cohort.ids]

    def _combine(self, factors: Array) -> Reply:
        present = self.cohort.present
        all_there = isinstance(present, np.ndarray) and present.all()

        def over_clients(v: Array) -> Array:
            if not all_there:
                # What an absent slot holds may be anything, so it is cut out, not scaled.
                v = jnp.where(jnp.reshape(present, (-1, *[1] * (v.ndim - 1))), v, 0)
            return jnp.tensordot(factors.astype(v.dtype), v, 1)

        return jax.tree.map(over_clients, self.value)
