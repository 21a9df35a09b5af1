"""Who takes part: the sampling rules of federated methods, by name.

Each returns a `Cohort` of static size. The distinction between drawing with and without
replacement is part of a method's correctness, so it is part of the name here.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.errors import ParameterError
from fedloom.parameters import at_least, param
from fedloom.protocol import Cohort
from fedloom.types import Array, Held


def cohort_param() -> Any:
    """The field of a method for how many clients `uniform` draws."""
    return param(at_least(1).or_none("everyone"), "clients asked in a round", default=None)


def everyone(n: int) -> Cohort:
    """All clients, in order."""
    return Cohort(np.arange(n, dtype=np.int32), np.ones(n, bool))


def uniform(key: Array, n: int, size: int | None) -> Cohort:
    """`size` of `n` clients, uniformly without replacement; None means everyone."""
    if size is None or size == n:
        return everyone(n)
    if size > n:
        raise ParameterError(
            f"cohort must be a whole number from 1 to the number of clients, {n}; got {size}. "
            f"Lower the cohort or leave it out to ask everyone."
        )
    return Cohort(draws.distinct(key, draws.domain(n), size), np.ones(size, bool), uniform=True)


def by_weight(key: Array, weights: Held, size: int) -> Cohort:
    """`size` independent draws with probabilities `weights`: with replacement, so repeats occur.

    The plain mean over such a cohort is unbiased for the weighted sum over all clients. Drawing
    without replacement would not be.
    """
    weights = jnp.asarray(weights)
    ids = jax.random.choice(key, weights.shape[0], (size,), p=weights / weights.sum())
    return Cohort(ids.astype(np.int32), np.ones(size, bool), repeats=True)


def bernoulli(key: Array, probabilities: Array | float, n: int) -> Cohort:
    """Each client joins independently with its own probability; the cohort may be empty."""
    joins = jax.random.uniform(key, (n,)) < jnp.broadcast_to(probabilities, (n,))
    return Cohort(np.arange(n, dtype=np.int32), joins)
