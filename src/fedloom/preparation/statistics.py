"""Counts, means and spreads of columns over all clients, from sums alone.

    client i    for each number column j: how many values there are, and their sum
                for each column of words: how often each word occurs
    hub         m_j = all sums / all counts
    client i    sum over its rows of (x_j - m_j)^2
    hub         adds them up

A client's rows are `x`, numbers with nan where one is missing, and `y`, the places of words in the
agreed lists, with -1 where there is none. Squares are taken about the common mean, as sums of plain
squares lose their digits where the mean is large against the spread. The hub uses nothing but sums,
so a secure sum would serve it as well; the number of missing values at each client is reported by
name.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import everyone
from fedloom.oracles import FedView
from fedloom.parameters import anything, param
from fedloom.preparation.table_problem import TableRows
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Nothing


class Moments(NamedTuple):
    """What the hub knows of the columns of all clients together."""

    present: Array  # (p,) how many values each column of numbers has
    mean: Array  # (p,)
    squares: Array  # (p,) sum of squared distances from the mean
    words: Array  # (sum of widths,) how often each word of each column occurs


class Counted(NamedTuple):
    """A client's counts and sums."""

    present: Array
    total: Array
    words: Array
    missing: Array  # (p + q,) how many rows have no value, for each column


@algorithm
class Statistics(Algorithm):
    """Means and spreads of columns of numbers, counts of words."""

    takes: ClassVar[str] = "table"
    needs_everyone: ClassVar[bool] = True
    numbers: int = param(anything, "how many columns hold numbers")
    widths: tuple[int, ...] = param(anything, "how many words each column of words has")

    def init_hub(self, fed: FedView, key: Array, /) -> Moments:
        """Nothing counted yet."""
        nothing = jnp.zeros(self.numbers)
        return Moments(nothing, nothing, nothing, jnp.zeros(sum(self.widths)))

    def round(self, hub: Moments, fed: FedView, key: Array, /) -> Round:
        """Two exchanges: sums, then squares about the means."""
        counted = yield ask(self.count, (), to=everyone(fed.n))
        sums = counted.sum()
        mean = sums.total / jnp.maximum(sums.present, 1)
        squares = yield ask(self.spread, mean, to=everyone(fed.n))
        moments = Moments(sums.present, mean, squares.sum(), sums.words)
        return moments, counted.scatter(fed.n).missing

    def count(
        self, client: Nothing, message: Nothing, f: TableRows, key: Array, /
    ) -> tuple[Nothing, Counted]:
        """What there is, what is missing, and the sums."""
        there = jnp.isfinite(f.x) & f.counts[:, None]
        words, missing, start = jnp.zeros(sum(self.widths)), [], 0
        for column, width in enumerate(self.widths):
            known = f.counts & (f.y[:, column] >= 0)
            places = jnp.where(known, start + f.y[:, column], sum(self.widths))
            words = words.at[places].add(1, mode="drop")
            missing.append((f.counts & ~known).sum())
            start += width
        present = there.sum(0).astype(words.dtype)
        gaps = jnp.concatenate([f.size - present, jnp.asarray(missing, words.dtype)])
        return client, Counted(present, jnp.where(there, f.x, 0).sum(0), words, gaps)

    def spread(
        self, client: Nothing, mean: Array, f: TableRows, key: Array, /
    ) -> tuple[Nothing, Array]:
        """Squares about the common mean."""
        there = jnp.isfinite(f.x) & f.counts[:, None]
        return client, jnp.where(there, (f.x - mean) ** 2, 0).sum(0)

    def model(self, hub: Moments, fed: FedView, /) -> Array:
        """There is none."""
        return jnp.zeros(1)
