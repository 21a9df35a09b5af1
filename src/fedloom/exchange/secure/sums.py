"""Which methods use nothing of the replies but sums, and the replies that those methods get.

It is not declared but found out: the method's round is traced with replies that note which sums are
taken of them and forbid everything else.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.wrappers.robust import check_not_summed
from fedloom.errors import ProtocolError
from fedloom.exchange.expected import STAGES, play_stages, worked_out
from fedloom.population import Federation
from fedloom.protocol import Algorithm, Ask, Cohort, Replies
from fedloom.pytrees import pytree, static
from fedloom.types import Array, Held, Tree

Kinds = tuple[str, ...]  # of "plain" and "weighted": which sums an exchange needs


def sums_of(algorithm: Algorithm, federation: Federation) -> dict[str, tuple[Kinds, ...]]:
    """For each exchange of each stage, the sums that the hub takes.

    Raises:
        ProtocolError: The hub looks at single replies; the message says in which exchange.
    """
    check_not_summed(algorithm)
    found = worked_out(_played, algorithm, federation)
    return {stage: getattr(found, stage) for stage in STAGES}


def why_not(algorithm: Algorithm, federation: Federation) -> str | None:
    """Why secure aggregation does not apply to a method; None where it does."""
    try:
        sums_of(algorithm, federation)
    except ProtocolError as error:
        return str(error)
    return None


@pytree
class _Taken:
    """The sums that each exchange of each stage needs."""

    opening: tuple[Kinds, ...] = static()
    round: tuple[Kinds, ...] = static()


def _played(algorithm: Algorithm, federation: Federation) -> _Taken:
    taken: dict[str, list[set[str]]] = {stage: [] for stage in STAGES}

    def hear(stage: str, request: Ask, replies: Replies) -> Any:
        name = request.method
        if request.to.repeats:
            raise ProtocolError(f"{name!r} may ask a client twice")
        if request.each:
            raise ProtocolError(f"{name!r} gets a message of its own at each client")
        if not all(jnp.issubdtype(v.dtype, jnp.floating) for v in jax.tree.leaves(replies.value)):
            raise ProtocolError(f"replies to {name!r} are not all real numbers")
        taken[stage].append(set())
        return _Noting(replies, federation.fed.weights, name, taken[stage][-1])

    play_stages(algorithm, federation, hear)
    return _Taken(**{s: tuple(tuple(sorted(k)) for k in kinds) for s, kinds in taken.items()})


class _Noting:
    """Replies that note which sums are taken of them."""

    def __init__(self, replies: Replies, known: Held, method: str, taken: set[str]):
        self._replies = replies
        self._known = known
        self._method = method
        self._taken = taken
        self.cohort = replies.cohort

    def sum(self, weights: Held | None = None) -> Tree:
        self._note(weights)
        return self._replies.sum(weights)

    def mean(self) -> Tree:
        return self.average(None)

    def average(self, weights: Held | None) -> Tree:
        self._note(weights)
        return self._replies.average(weights)

    def estimate(self, weights: Held) -> Tree:
        self._note(weights)
        return self._replies.estimate(weights)

    def _note(self, weights: Held | None) -> None:
        if weights is not None and weights is not self._known:
            raise ProtocolError(f"the hub weighs replies to {self._method!r} by numbers of its own")
        self._taken.add("plain" if weights is None else "weighted")

    def __getattr__(self, name: str) -> Any:
        raise ProtocolError(f"the hub looks at single replies to {self._method!r}, by .{name}")


@pytree
class SummedReplies:
    """What came back, summed: all that a method sees of its replies."""

    cohort: Cohort
    plain: Tree  # the sum of the replies that arrived; None where it is not needed
    weighted: Tree  # the same, each reply times its client's weight
    weight: Array  # the sum of the weights of the clients that answered

    def sum(self, weights: Held | None = None) -> Tree:
        """The sum over who arrived."""
        return self.plain if weights is None else self.weighted

    def mean(self) -> Tree:
        """The plain mean over who arrived."""
        return self.average(None)

    def average(self, weights: Held | None) -> Tree:
        """The mean over who arrived, weighted or not."""
        total = self.weight if weights is not None else jnp.asarray(self.cohort.present).sum()
        divisor = jnp.where(total > 0, total, 1)
        return jax.tree.map(lambda v: v / divisor.astype(v.dtype), self.sum(weights))

    def estimate(self, weights: Held) -> Tree:
        """An unbiased estimate of the weighted mean over all clients."""
        factor = self.cohort.scale(len(weights)) / jnp.asarray(weights).astype(float).sum()
        return jax.tree.map(lambda v: v * factor.astype(v.dtype), self.weighted)


def flat(reply: Tree, kinds: Kinds, weight: float) -> np.ndarray:
    """A client's contribution to all sums that are taken, as one vector."""
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(reply)]
    vector = np.concatenate([*leaves, np.zeros(0)])
    parts = [vector if kind == "plain" else weight * vector for kind in kinds]
    return np.concatenate([*parts, np.zeros(0)])


def unflat(total: np.ndarray, kinds: Kinds, like: Tree) -> dict[str, Tree]:
    """The sums, in the structure of a reply."""
    leaves, structure = jax.tree.flatten(like)
    out: dict[str, Tree] = {}
    start = 0
    for kind in kinds:
        parts = []
        for leaf in leaves:
            stop = start + int(np.prod(leaf.shape))
            parts.append(jnp.asarray(total[start:stop].reshape(leaf.shape), leaf.dtype))
            start = stop
        out[kind] = jax.tree.unflatten(structure, parts)
    return out
