"""How a site protects what it sends.

Replies are scaled down, and get noise that nobody can draw again; metrics get noise and fewer
digits. Counts of only a few rows are hidden: `least` is the owner's `least_count`. Totals stay
true, and with them weights by the number of rows. Scores leave as means over rows, or sorted within
each class, so that no score belongs to a known row.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedloom.errors import RefusedError
from fedloom.exchange.expected import Expectations
from fedloom.federation.policy import Policy
from fedloom.metrics.chosen import Wanted
from fedloom.metrics.links import flat
from fedloom.metrics.ready import means_behind, means_of, needing_scores
from fedloom.problems.base import Problem
from fedloom.rows import Rows
from fedloom.types import Tree

Scored = tuple[np.ndarray, np.ndarray]  # scores and labels


def protect(reply: Tree, clip: float | None, noise: float | None, *, summed: bool = False) -> Tree:
    """The reply with a norm of at most `clip`, plus noise of deviation `noise * clip`.

    The norm is that of all numbers of the reply together. The noise is drawn from the operating
    system's entropy and not from the run's seed, which the hub knows and could use to take the
    noise off again. In a secure sum, a reply that is not finite and gets no noise is left as it is,
    because it fits no sum: zeros in its place would leave a sum of the others, or of one of them.
    """
    if clip is None:
        return reply
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(reply)]
    _check_real(leaves)
    norm = float(np.sqrt(sum(float(np.sum(leaf.astype(np.float64) ** 2)) for leaf in leaves)))
    factor = min(1.0, clip / norm) if norm > 0 else 1.0
    if summed and noise is None and not np.isfinite(norm):
        return reply
    if not np.isfinite(norm):  # a step too large: no part of it may leave, nor that it was so
        leaves, factor = [np.zeros_like(leaf) for leaf in leaves], 1.0
    source = _source()

    def changed(leaf: np.ndarray) -> np.ndarray:
        scaled = leaf.astype(np.float64) * factor
        if noise is not None:
            scaled = scaled + source.normal(0, noise * clip, leaf.shape)
        return np.asarray(scaled, leaf.dtype)

    return jax.tree.unflatten(jax.tree.structure(reply), [changed(leaf) for leaf in leaves])


def blurred(told: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Metrics with the noise and the number of digits that the owner's policy says."""

    def changed(value: Any) -> Any:
        if not isinstance(value, float):
            return value
        if policy.metric_noise is not None:
            value += float(_source().normal(0, policy.metric_noise))
        if policy.metric_digits is not None:
            value = float(format(value, f".{policy.metric_digits}g"))
        return value

    return {name: changed(value) for name, value in told.items()}


def check_protectable(said: Expectations) -> None:
    """Refuse a method with replies that clip and noise cannot protect."""
    for exchange in (exchange for stage in said.values() for exchange in stage):
        _check_real(jax.tree.leaves(exchange.reply), f" to {exchange.method!r}")


def told_counts(counts: list[int], least: int) -> list[int]:
    """Counts of classes with the same sum, none of which is above 0 and below `least`.

    A small count is raised to `least`, and the difference taken from the largest. If no class can
    spare it, the rows are told as if they were evenly divided, which discloses no class.
    """
    raised = [at_least(count, least) for count in counts]
    excess = sum(raised) - sum(counts)
    largest = int(np.argmax(raised)) if raised else 0
    if excess == 0:
        return raised
    if raised[largest] - excess >= least:
        raised[largest] -= excess
        return raised
    there = [i for i, count in enumerate(counts) if count]
    share, more = divmod(sum(counts), len(there))
    even = {i: share + (k < more) for k, i in enumerate(there)}
    return [even.get(i, 0) for i in range(len(counts))]


def at_least(count: int, least: int) -> int:
    """Counts in which every one above 0 is at least `least`."""
    return max(count, least) if count else 0


def without_rare(rows: Rows, least: int) -> Rows:
    """Columns to count and sum, without what a few rows alone have.

    A word of fewer than `least` rows counts as missing, and so do fewer numbers than that in a
    column. Fewer gaps are filled: numbers with the mean of the column at this site, words with its
    most frequent one.
    """
    x, y = np.array(rows.x, float), np.array(rows.y)
    for column in x.T:
        gaps = np.isnan(column)
        if (~gaps).sum() < least:
            column[:] = np.nan
        elif 0 < gaps.sum() < least:
            column[gaps] = column[~gaps].mean()
    for words in y.T:
        counts = np.bincount(words[words >= 0], minlength=1)
        words[(words >= 0) & (counts[words] < least)] = -1
        gaps = words < 0
        if 0 < gaps.sum() < least and counts.max() >= least:
            words[gaps] = np.argmax(counts)
    return Rows(x, y)


class SiteScores:
    """The scores of a site's own rows, as they were measured."""

    def __init__(self, raw: dict[str, Any], rows: int, wanted: Wanted, problem: Problem):
        self.rows, self.wanted, self.problem = rows, wanted, problem
        self.scored: Scored | None = None
        if wanted.pooled:  # without padding
            self.scored = raw.pop("outputs")[0][:rows], raw.pop("targets")[0][:rows]

    def means(self, least: int) -> dict[str, Any]:
        """The means that metrics can be made of and the number of rows; none of fewer than some."""
        names = means_behind(self.wanted.pooled)
        if not names and not self.wanted.of_clients:
            return {}
        if self.rows < max(least, 1):
            return dict.fromkeys((*names, "rows"))
        from_means = [name for name in self.wanted.pooled if not needing_scores([name])]
        made = means_of(from_means, self.problem, *self.scored) if self.scored else {}
        return {**made, "rows": self.rows}

    def by_class(self, classes: int, least: int) -> tuple[np.ndarray, ...]:
        """The scores of each class, sorted, so that none is of a certain row; none of few rows."""
        if self.scored is None or not needing_scores(self.wanted.pooled):
            return ()
        scores, labels = self.scored
        link = self.problem.link or "sign"
        dtype = scores.dtype
        scores, labels = flat(scores, labels, link)
        if self.rows < least:
            scores, labels = scores[:0], labels[:0]
        return tuple(_sorted(scores[labels == one].astype(dtype)) for one in range(classes))


def _sorted(scores: np.ndarray) -> np.ndarray:
    """Scores in their order; rows of several by the first, then by the next."""
    if scores.ndim == 1:
        return np.sort(scores)
    return scores[np.lexsort(scores.T[::-1])]


def _source() -> np.random.Generator:
    """Random numbers of the operating system's entropy."""
    return np.random.default_rng(secrets.randbits(256))


def _check_real(leaves: Sequence[Any], which: str = "") -> None:
    if not all(np.issubdtype(leaf.dtype, np.floating) for leaf in leaves):
        raise RefusedError(
            f"this site's policy clips replies, and the reply{which} holds whole numbers, which "
            f"neither clip nor noise can protect. Leave out the compressor, or choose a method "
            f"that sends real numbers only."
        )
