"""Who takes part in an exchange: the ways in which federated methods choose clients.

Each function returns a `Cohort` for `ask(..., to=cohort)`. Whether clients are drawn with or
without replacement decides which mean of their replies is unbiased, so each way has its own name.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.errors import ParameterError
from fedloom.lazy import public
from fedloom.parameters import at_least, param
from fedloom.protocol import Cohort
from fedloom.types import Array, Held

__all__ = ["bernoulli", "by_weight", "cohort_param", "everyone", "uniform"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


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
    """Draw clients independently with replacement, each with a probability in proportion to weight.

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
    """Let each client join independently, with a probability of its own; there may be none.

    Args:
        key: The random key of the round.
        probabilities: One for each client, or one for all.
        n: How many clients there are, `fed.n`.
    """
    joins = jax.random.uniform(key, (n,)) < jnp.broadcast_to(probabilities, (n,))
    return Cohort(np.arange(n, dtype=np.int32), joins)
