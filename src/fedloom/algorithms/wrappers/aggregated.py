"""The replies that a method inside `Robust` gets: they give robust means, and no single reply.

`fedloom.algorithms.wrappers.robust` explains which mean becomes which aggregate.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fedloom.data.clients import Clients
from fedloom.errors import ProtocolError
from fedloom.operators.aggregators import Aggregator, Median
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Ask, Cohort, Replies
from fedloom.rows import Rows, store
from fedloom.types import Array, Held, Tree


class Aggregated:
    """Replies whose means and sums are robust aggregates."""

    def __init__(
        self,
        replies: Replies,
        aggregator: Aggregator,
        fed: Fed,
        said: tuple[str, str],  # the method, and what it asked for
        before: Tree,  # what each client has replied so far; () where no sum needs it
    ):
        self._aggregator, self._fed, self._said, self._before = aggregator, fed, said, before
        self._known: list[tuple[Held | None, Tree]] = []  # aggregates, by their weights
        self.needs_total = False  # whether the hub adds up what clients change
        cohort = replies.cohort
        flat = jax.vmap(lambda reply: ravel_pytree(reply)[0], axis_size=len(cohort))
        self._rows = flat(replies.value)
        present = jnp.logical_and(cohort.present, jnp.isfinite(self._rows).all(1))
        self.cohort = Cohort(cohort.ids, present, cohort.repeats, cohort.uniform)
        self._replies = Replies(replies.value, self.cohort)
        self._ones = Replies(jnp.ones(len(cohort)), self.cohort)

    def sum(self, weights: Held | None = None) -> Tree:
        """The aggregate times the weights that arrived, or how the aggregate of totals changed."""
        self.needs_total |= weights is self._fed.weights
        if weights is self._fed.weights and jax.tree.leaves(self._before):
            return jax.tree.map(self._moved, self._before, self.total())
        return self._times(self._ones.sum(weights), weights)

    def mean(self) -> Tree:
        """The aggregate in which all clients count equally."""
        return self.average(None)

    def average(self, weights: Held | None) -> Tree:
        """The aggregate by these weights."""
        return self._times(self._ones.average(weights), weights)

    def estimate(self, weights: Held) -> Tree:
        """The aggregate by these weights, times the factor that `Replies.estimate` has."""
        return self._times(self._ones.estimate(weights), weights)

    def map(self, function: Callable[[Any], Any]) -> "Aggregated":
        """Each reply passed through a function, before any aggregate is taken."""
        passed = self._replies.map(function)
        return Aggregated(passed, self._aggregator, self._fed, self._said, ())

    def total(self) -> Tree:
        """What each client has replied so far, this exchange included."""
        if not jax.tree.leaves(self._before):
            return ()
        return jax.tree.map(jnp.add, self._before, self._replies.scatter(self._fed.n))

    def _moved(self, before: Array, after: Array) -> Array:
        weights = jnp.asarray(self._fed.weights)

        def aggregate(totals: Array) -> Array:
            rows = totals.reshape(self._fed.n, -1)
            return self._aggregator(rows, weights, jnp.ones(self._fed.n, bool))

        change = aggregate(after) - aggregate(before)
        return (weights.sum().astype(change.dtype) * change).reshape(before.shape[1:])

    def _times(self, factor: Array, weights: Held | None) -> Tree:
        return jax.tree.map(lambda v: factor.astype(v.dtype) * v, self._aggregate(weights))

    def _aggregate(self, weights: Held | None) -> Tree:
        """The aggregate of whole replies by these weights, computed once for the same weights."""
        for known, found in self._known:
            if known is weights:
                return found
        self._check_real()
        present, ids = jnp.asarray(self.cohort.present), jnp.asarray(self.cohort.ids)
        shares = jnp.ones(len(ids)) if weights is None else jnp.asarray(weights)[ids]
        if self.cohort.repeats:
            same = (ids[:, None] == ids[None, :]) & present[None, :]
            shares = shares * same.sum(1)
            present = present & ~jnp.tril(same, -1).any(1)
        row = self._aggregator(self._rows, shares, present)
        unravel = ravel_pytree(jax.tree.map(lambda v: v[0], self._replies.value))[1]
        self._known.append((weights, unravel(row)))
        return self._known[-1][1]

    def _check_real(self) -> None:
        for leaf in jax.tree.leaves(self._replies.value):
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                owner, asked = self._said
                raise ProtocolError(
                    f"Robust is for replies of real numbers; those to {asked!r} of {owner} hold "
                    f"{leaf.dtype}. Choose another method."
                )

    def __getattr__(self, name: str) -> Any:
        owner, asked = self._said
        raise ProtocolError(
            f"Robust is for methods whose hub uses nothing but means of replies: the hub of "
            f"{owner} looks at single replies to {asked!r}, by .{name}, where one malicious reply "
            f"could decide. Choose another method."
        )


def totals_of(method: Algorithm, fed: Fed, key: Array) -> tuple[Tree, ...]:
    """Zero totals for each exchange of a round whose replies the hub adds up, () for the others.

    Which these are, and the shapes of replies, is found out by tracing a round with clients of one
    row of zeros. Where clients keep nothing, no sum is of what they keep.
    """
    if type(method).init_client is Algorithm.init_client:
        return ()
    heard = _trace(method, fed, key)
    if not any(needed for needed, _ in heard):
        return ()

    def zeros(shape: jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros((fed.n, *shape.shape), shape.dtype)

    return tuple(jax.tree.map(zeros, reply) if needed else () for needed, reply in heard)


def _trace(method: Algorithm, fed: Fed, key: Array) -> list[tuple[bool, Tree]]:
    """For each exchange of a round: whether its total is needed, and the shapes of a reply."""
    assert fed.row is not None  # clients hold rows: vertical methods are refused
    rows = Rows(*(np.zeros((fed.n, *part.shape), part.dtype) for part in fed.row))
    labels = np.arange(fed.spec.classes) if fed.spec.classes else None
    sizes = np.ones(fed.n, np.int64)
    everyone = Clients(rows, sizes, ("",) * fed.n, labels)
    problem, _ = fed.problem.groups(everyone)[0]  # replies of all groups have the same shapes
    heard: list[tuple[Aggregated, Tree]] = []

    def answered(request: Ask, reply: Tree) -> Any:
        stacked = jax.tree.map(lambda v: jnp.stack([v] * len(request.to)), reply)
        said = (type(method).__name__, request.method)
        replies = Aggregated(Replies(stacked, request.to), Median(), fed, said, ())
        shapes = jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype), reply)
        heard.append((replies, shapes))
        return replies

    def play() -> None:
        f = problem.objective(fed.layout, store(rows, sizes).client(0), None)
        client = method.init_client(f, key)
        steps = method.round(method.init_hub(fed, key), fed, key)
        try:
            request = next(steps)
            while True:
                reply = method.perform(request.method, client, request.message_to(0), f, key)[1]
                request = steps.send(answered(request, reply))
        except StopIteration:
            return

    jax.eval_shape(play)
    return [(replies.needs_total, shapes) for replies, shapes in heard]
