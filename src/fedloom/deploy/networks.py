"""A problem's model as a network that gives scores: what is taken away from any of them.

Linear models are networks of one dense layer. The scores are those of `Problem.scores`, so that
where one score decides between two classes, 0 is the threshold.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.models import CNN, CNN1, CNN2, MLP, EmbeddingBag, ResNet
from fedloom.models.base import Model, Pair
from fedloom.problems import (
    AUC,
    Adversarial,
    LeastSquares,
    Logistic,
    Multinomial,
    Personal,
    Problem,
    Supervised,
)
from fedloom.types import Tree

LINEAR = MLP(())
_LINEAR = (Logistic, Multinomial, LeastSquares)  # and no class of one's own made from them


def network_of(problem: Problem, arrays: Tree) -> tuple[Model, Tree]:
    """The network behind a problem, and the arrays of a model as that network wants them."""
    if type(problem) in _LINEAR:
        return _linear(arrays)
    if type(problem) is Personal:
        return problem.model, arrays
    if type(problem) is Supervised:
        return problem.model, arrays
    if type(problem) is Adversarial:
        return _linear(arrays) if problem.model is None else (problem.model, arrays)
    if type(problem) is AUC:
        threshold = np.asarray(arrays["bias"]).mean()
        if problem.model is None:
            return _linear({"weights": arrays["w"], "bias": -threshold})
        return problem.model, _shifted(problem.model, arrays["w"], -threshold)
    return Pair(problem.init, problem.scores), arrays  # whatever a problem of one's own does


def _linear(model: Tree) -> tuple[Model, Tree]:
    """One dense layer, from the bare weights or those with a bias; a vector is one column."""
    given = model if isinstance(model, dict) else {"weights": model}
    weights = jnp.asarray(given["weights"])
    weights = weights[:, None] if weights.ndim == 1 else weights
    bias = jnp.asarray(given.get("bias", 0), weights.dtype)
    return LINEAR, [{"weights": weights, "bias": jnp.broadcast_to(bias, weights.shape[1:])}]


def _shifted(model: Model, arrays: Any, by: Any) -> Tree:
    """The arrays of a network whose scores are larger by a number."""
    if isinstance(model, MLP | EmbeddingBag | ResNet):
        return _last_bias(arrays, by)
    if isinstance(model, CNN | CNN1 | CNN2):
        return {**arrays, "dense": _last_bias(arrays["dense"], by)}
    raise ParameterError(
        f"deploy: the threshold of AUC can be put into fedloom's own networks only; got {model!r}. "
        f"Use result.model and problem.scores."
    )


def _last_bias(layers: Any, by: Any) -> Tree:
    *before, last = layers
    return [*before, {**last, "bias": last["bias"] + by}]
