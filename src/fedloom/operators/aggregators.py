"""Aggregators: what a hub computes instead of a mean if some replies may be malicious.

`aggregator(values, weights, present)` takes m replies as rows (m, d), their weights (m,) and which
of them arrived (m,), and returns one vector (d,). Weights need not sum to one. A reply is left out,
exactly as if it had not been asked for, if its client is absent, its weight is zero, or one of its
numbers is not finite. Without any reply the aggregate is zero.

    rule              of the weights, or of the m replies, may be malicious     counts by weight
    Median            less than half                                            yes
    TrimmedMean       at most `fraction`                                        yes
    Krum, MultiKrum   `malicious` replies, with 2 malicious + 3 <= m            in the mean only
    GeometricMedian   less than half                                            yes
    CentredClipping   any; a part s moves a step by at most 2 s radius         yes
    NormBound         any; a part s moves the mean by at most 2 s bound        yes

"May be malicious" means that such replies, whatever they hold, move the aggregate by no more than a
bound that depends on the honest ones. None of the rules is the mean, so even without malicious
replies a method ends elsewhere than with the mean if clients are unlike each other.
"""

from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp

from fedloom.errors import ParameterError, unwritten
from fedloom.lazy import public
from fedloom.parameters import Rule, at_least, param, parametrised, positive
from fedloom.types import Array, Scalar

__all__ = [
    "Aggregator",
    "CentredClipping",
    "GeometricMedian",
    "Krum",
    "Median",
    "MultiKrum",
    "NormBound",
    "TrimmedMean",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


_BELOW_HALF = Rule(
    lambda v: isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 0.5,
    "a number >= 0 and < 0.5",
    0.2,
    {"type": "number", "minimum": 0, "exclusiveMaximum": 0.5},
)


class Aggregator:
    """Base of the aggregators: a rule that combines the replies to an exchange into one vector."""

    __parametrised__: ClassVar[bool] = True

    def __call__(self, values: Array, weights: Array, present: Array) -> Array:
        """The aggregate of the replies that arrived.

        Args:
            values: The replies as rows, (m, d).
            weights: One for each reply, (m,).
            present: Which of them arrived, (m,).
        """
        self.check(len(values))
        there = jnp.asarray(present) & jnp.isfinite(values).all(1) & (jnp.asarray(weights) > 0)
        values = jnp.where(there[:, None], values, 0)
        weights = jnp.where(there, weights, 0).astype(values.dtype)
        total = weights.sum()
        out = self.combine(values, weights / jnp.where(total > 0, total, 1), there)
        return jnp.where(total > 0, out, 0)

    def check(self, replies: int) -> None:
        """Raise ParameterError where the parameters do not fit the number of clients asked.

        Args:
            replies: How many clients are asked.
        """

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """The rule itself, which each aggregator defines.

        Args:
            values: The replies as rows, (m, d); zero where `there` is False.
            weights: One for each reply, (m,); they sum to one, and are zero where `there` is False.
            there: Which replies count, (m,).
        """
        raise unwritten(self, "combine")


@parametrised
class Median(Aggregator):
    """The median of each coordinate, by weight.

    It is the middle between the lower and the upper weighted median, so that for equal weights it
    is the usual one.
    """

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """The values at which half of the weight is reached and exceeded."""
        return _median(values, weights)


@parametrised
class TrimmedMean(Aggregator):
    """The mean of each coordinate without its smallest and largest values (Yin et al. 2018).

    At each end a `fraction` of the weight is cut off; a reply on the border counts with the part of
    its weight that is inside.
    """

    fraction: float = param(_BELOW_HALF, "part of the weight cut off at each end", default=0.2)

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """The mean over the weight between fraction and 1 - fraction."""
        ordered, mass = _ordered(values, weights)
        reached = jnp.cumsum(mass, 0)
        low, high = self.fraction, 1 - self.fraction
        inside = jnp.minimum(reached, high) - jnp.maximum(reached - mass, low)
        # What rounding leaves of a weight that is cut off must not let a huge value in.
        inside = jnp.where(inside > _slack(values), inside, 0)
        return (ordered * inside).sum(0) / inside.sum(0)


@parametrised
class Krum(Aggregator):
    """The reply that is closest to its neighbours (Blanchard et al. 2017).

    A reply's score is the sum of its squared distances to the m - malicious - 2 replies next to it,
    m being those that are there. All clients count alike.
    """

    malicious: int = param(at_least(0), "how many of the replies may be malicious")

    def check(self, replies: int) -> None:
        """2 malicious + 3 replies are needed."""
        _check_few_malicious(self, self.malicious, replies)

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """The row of the least score."""
        return values[jnp.argmin(_krum_scores(values, there, self.malicious))]


@parametrised
class MultiKrum(Aggregator):
    """The mean of the replies that are closest to their neighbours (Blanchard et al. 2017).

    They are chosen by Krum's scores, in which all clients count alike, and averaged by weight.
    """

    malicious: int = param(at_least(0), "how many of the replies may be malicious")
    keep: int | None = param(
        at_least(1).or_none("all but `malicious`"), "how many replies are averaged", default=None
    )

    def check(self, replies: int) -> None:
        """2 malicious + 3 replies are needed, and of these all but `malicious` may be kept."""
        _check_few_malicious(self, self.malicious, replies)
        if self.keep is not None and self.keep > replies - self.malicious:
            raise ParameterError(
                f"MultiKrum: keep must be at most the number of clients asked without the "
                f"malicious ones, {replies} - {self.malicious}; got {self.keep}. Lower it, or "
                f"leave it out."
            )

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """The mean of the rows of the least scores."""
        scores = _krum_scores(values, there, self.malicious)
        rank = jnp.argsort(jnp.argsort(scores))
        honest = jnp.maximum(there.sum() - self.malicious, 1)
        keep = honest if self.keep is None else jnp.minimum(self.keep, honest)
        kept = jnp.where(rank < keep, weights, 0)
        return kept @ values / kept.sum()


@parametrised
class GeometricMedian(Aggregator):
    """The point with the least weighted sum of distances to the replies (Pillutla et al. 2022).

    Found by the smoothed Weiszfeld iteration: replies nearer than `smoothing` count as if they
    were that far. It starts from the median of each coordinate, where the paper starts from the
    mean, because a single reply can place that anywhere.
    """

    iterations: int = param(at_least(1), "steps of the Weiszfeld iteration", default=20)
    smoothing: float = param(positive, "distances below this count as this", default=1e-6)

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """Means, weighted by one over the distance to the last one."""

        def closer(_: Array, centre: Array) -> Array:
            pull = weights / jnp.maximum(_lengths(values - centre), self.smoothing)
            return pull @ values / pull.sum()

        return jax.lax.fori_loop(0, self.iterations, closer, _median(values, weights))


@parametrised
class CentredClipping(Aggregator):
    """Means of replies clipped around the last mean, from zero on (Karimireddy et al. 2021).

    centre <- centre + sum_i w_i (r_i - centre) min(1, radius / |r_i - centre|), from centre = 0.

    The paper starts from the last round's aggregate and lets clients send momenta. Here the first
    centre is zero in every round, which is where replies that are changes tend to, so that the rule
    keeps no state and works with any cohort. More iterations make up for the poorer start: the
    centre moves by at most the radius in each.
    """

    radius: float = param(positive, "distance from the centre beyond which replies are clipped")
    iterations: int = param(at_least(1), "how often the centre moves", default=10)

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """Clipped means around the last one."""

        def closer(_: Array, centre: Array) -> Array:
            return centre + weights @ _shortened(values - centre, self.radius)

        return jax.lax.fori_loop(0, self.iterations, closer, jnp.zeros_like(values[0]))


@parametrised
class NormBound(Aggregator):
    """The mean of the replies, of which those longer than `bound` are scaled down to it."""

    bound: float = param(positive, "the largest length of a reply")

    def combine(self, values: Array, weights: Array, there: Array) -> Array:
        """The weighted mean of the shortened rows."""
        return weights @ _shortened(values, self.bound)


def _ordered(values: Array, weights: Array) -> tuple[Array, Array]:
    """Each coordinate's values from small to large, and the weights that go with them."""
    order = jnp.argsort(values, axis=0)
    return jnp.take_along_axis(values, order, 0), weights[order]


def _median(values: Array, weights: Array) -> Array:
    ordered, mass = _ordered(values, weights)
    reached, slack = jnp.cumsum(mass, 0), _slack(values)

    def first(where: Array) -> Array:
        return jnp.take_along_axis(ordered, jnp.argmax(where, 0)[None], 0)[0]

    # A row of weight zero is never the first at which the sum of weights has grown.
    return (first(reached >= 0.5 - slack) + first(reached > 0.5 + slack)) / 2


def _slack(values: Array) -> float:
    """What rounding may do to a sum of weights."""
    return len(values) * float(jnp.finfo(values.dtype).eps)


def _lengths(values: Array) -> Array:
    return jnp.sqrt((values * values).sum(1))


def _shortened(values: Array, bound: Scalar) -> Array:
    lengths = _lengths(values)
    return values * jnp.minimum(1, bound / jnp.where(lengths > 0, lengths, 1))[:, None]


def _krum_scores(values: Array, there: Array, malicious: int) -> Array:
    """The squared distances of each row to its neighbours, summed; infinite for who is absent."""
    m = len(values)
    # Differences row by row: products of rows would lose digits, and overflow to NaN.
    distances = jax.lax.map(lambda row: ((values - row) ** 2).sum(1), values)
    distances = jnp.where(there[None, :] & ~jnp.eye(m, dtype=bool), distances, jnp.inf)
    near = jnp.maximum(there.sum() - malicious - 2, 1)
    scores = jnp.where(jnp.arange(m) < near, jnp.sort(distances, 1), 0).sum(1)
    # A reply that is there comes before all absent ones, even if it is alone or far from all.
    return jnp.where(there, jnp.minimum(scores, jnp.finfo(values.dtype).max), jnp.inf)


def _check_few_malicious(rule: object, malicious: int, replies: int) -> None:
    if 2 * malicious + 3 > replies:
        most = "none" if replies < 3 else str((replies - 3) // 2)
        raise ParameterError(
            f"{type(rule).__name__}: malicious must leave 2 malicious + 3 <= the number of clients "
            f"asked, {replies}, so that it is at most {most}; got {malicious}. Lower it, or ask "
            f"more clients."
        )
