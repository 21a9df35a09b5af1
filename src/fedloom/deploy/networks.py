"""A problem's model as a network that gives scores: what is taken away from any of them.

Linear models are networks of one dense layer. The scores are those of `Problem.scores`, so that
where one score decides between two classes, 0 is the threshold.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.models import CNN, CNN1, CNN2, MLP, EmbeddingBag, Lora, ResNet
from fedloom.models.base import Model, Pair
from fedloom.problems import (
    AUC,
    Adversarial,
    Cox,
    LeastSquares,
    Logistic,
    MultiLabel,
    Multinomial,
    Personal,
    Poisson,
    Problem,
    Supervised,
)
from fedloom.types import Tree

LINEAR = MLP(())
# And no class of one's own made from them.
_LINEAR = (Logistic, Multinomial, LeastSquares)
_EITHER = (Adversarial, Cox, MultiLabel, Poisson)  # linear, or with a network

# What scores say where they are not what the problem's metrics see; the others have `Problem.link`.
LOG = "log"  # the logarithm of the count that is predicted
LOG_HAZARD = "log hazard"  # the logarithm of a hazard, relative to the baseline
LOGITS = "logits"  # the log-odds of each of several labels
_LINKS: dict[type, str] = {Poisson: LOG, Cox: LOG_HAZARD, MultiLabel: LOGITS}


def link_of(problem: Problem) -> str | None:
    """What the scores of a problem's network say."""
    return _LINKS.get(type(problem), problem.link)


def title(model: Model) -> str:
    """What messages call a network; one of functions has no text that could be read."""
    return "a model of a problem's or of your own" if isinstance(model, Pair) else repr(model)


def network_of(problem: Problem, arrays: Tree) -> tuple[Model, Tree]:
    """The network behind a problem, and the arrays of a model as that network wants them.

    What is taken away of a network that changes by low rank is the changed network.
    """
    network, arrays = _network_of(problem, arrays)
    if isinstance(network, Lora):
        return network.model, network.merged(arrays)
    return network, arrays


def _network_of(problem: Problem, arrays: Tree) -> tuple[Model, Tree]:
    if type(problem) in _LINEAR:
        return _linear(arrays)
    if type(problem) is Personal:
        return problem.model, arrays
    if type(problem) is Supervised:
        return problem.model, arrays
    if isinstance(problem, _EITHER) and type(problem) in _EITHER:
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
