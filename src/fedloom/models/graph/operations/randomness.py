"""Operations that draw random numbers in training: dropout, of single numbers or of channels."""

import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models.dropout import kept
from fedloom.models.graph.operations.arithmetic import Table
from fedloom.models.graph.operations.training import Step, thinned
from fedloom.types import Array


def _dropout(step: Step | None, x: Array, p: float, train: bool) -> Array:
    return thinned(step if train else None, x, p)


def _native_dropout(step: Step | None, x: Array, p: float, train: bool | None) -> tuple[Array]:
    """The first of PyTorch's two results; the other is the mask."""
    return (_dropout(step, x, p, train is not False),)


def _feature_dropout(step: Step | None, x: Array, p: float, train: bool) -> Array:
    """Whole channels are dropped: the numbers after the first two axes."""
    ones = jnp.ones((*x.shape[:2], *[1] * (x.ndim - 2)), x.dtype)
    return x * _dropout(step, ones, p, train)


def _bernoulli(step: Step | None, x: Array, p: float) -> Array:
    """Ones with the chance p; in evaluation p itself.

    PyTorch divides them by p, as masks of channels, which leaves a mask of ones.
    """
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
        raise DataError(f"a chance must be from 0 to 1; got {p!r}.")
    key = None if step is None else step.key()
    if key is None:
        return jnp.full(x.shape, p, x.dtype)
    return kept(key, 1 - p, x.shape).astype(x.dtype)


TRAINED: Table = {
    "aten.dropout.default": _dropout,
    "aten.native_dropout.default": _native_dropout,
    "aten.feature_dropout.default": _feature_dropout,
    "aten.bernoulli.p": _bernoulli,
}
