"""Training any network with any loss."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from fedloom.errors import DataError, ParameterError
from fedloom.models.base import Model
from fedloom.parameters import anything, instance_of, one_of, param, parametrised
from fedloom.problems.augmentation import Augmentation, augment_param
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.class_weights import ClassWeights, agreed, class_weights_param, influences
from fedloom.problems.computing import compute_param, computed, rematerialise_param
from fedloom.problems.linear import accuracy, check_numbers, cross_entropy
from fedloom.problems.outputs import check_scores_of_classes, check_takes
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.two_classes import numbers_for_classes
from fedloom.rows import Batch, Rows, Spec
from fedloom.types import Array, Held, Tree


def _squared(outputs: Array, targets: Held) -> Array:
    if outputs.size != targets.size:
        raise DataError(
            f"Supervised with the squared loss needs an output for each number to predict; got "
            f"outputs of shape {outputs.shape} for labels of shape {targets.shape}. Use a network "
            f"with as many outputs, or choose one of the labels."
        )
    error = outputs.reshape(targets.shape) - targets
    return 0.5 * (error * error).reshape(targets.shape[0], -1).sum(-1)


LOSSES: Mapping[str, Callable[[Array, Held], Array]] = {
    "cross_entropy": cross_entropy,
    "squared": _squared,
}
_LINKS = {"cross_entropy": "softmax", "squared": "identity"}


@parametrised
class Supervised(Problem):
    """Train a network: any (init, apply) pair, with a named loss or one of your own.

    `model.init(key, spec)` returns the arrays, `model.apply(arrays, x)` the outputs of rows `x`.
    A loss of your own is a function `loss(outputs, labels)` that returns one number for each row.
    """

    model: Model = param(instance_of(Model), "the network: an (init, apply) pair")
    loss: str | Callable[[Array, Held], Array] = param(
        anything,
        "'cross_entropy', 'squared', or a function of outputs and labels",
        default="cross_entropy",
    )
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    class_weights: ClassWeights = class_weights_param()
    augment: Augmentation | None = augment_param()
    compute: str | None = compute_param()
    rematerialise: bool = rematerialise_param()

    def __post_init__(self) -> None:
        if not callable(self.loss) and not one_of(*LOSSES).holds(self.loss):
            raise ParameterError(
                f"Supervised: loss must be one of {', '.join(LOSSES)} or a function; "
                f"got {self.loss!r}. Try loss = 'cross_entropy'."
            )
        if self.class_weights is not None and self.loss != "cross_entropy":
            raise ParameterError(
                f"Supervised: class_weights are for loss = 'cross_entropy'; got {self.loss!r}. "
                f"Leave them out."
            )

    def agree(self, clients: Any) -> "Supervised":
        """The problem with the weights of classes as numbers."""
        numbers = clients.classes == 0 and clients.train.y.dtype.kind == "f"
        if self.loss == "cross_entropy" and numbers:
            raise numbers_for_classes(
                "Supervised with loss = 'cross_entropy'", "Use loss = 'squared' for a regression."
            )
        if self.class_weights is None or clients.classes == 0:
            return self
        agreed_on = agreed("Supervised", self.class_weights, clients)
        return dataclasses.replace(self, class_weights=agreed_on)

    @property
    def influences(self) -> tuple[float, ...] | None:
        """The weights of classes."""
        return influences(self.class_weights)

    def augmented(self, batch: Batch, key: Array) -> Batch:
        """The batch with flips and crops, where they are asked for."""
        return batch if self.augment is None else self.augment.of(batch, key)

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh arrays of the network."""
        if self.loss == "squared":
            check_numbers("Supervised with the squared loss", spec)
        if self.loss == "cross_entropy" and spec.classes == 1:  # which any network predicts
            raise DataError(
                "Supervised with loss = 'cross_entropy' needs labels of 2 classes or more; the "
                "data have 1. Add rows of another class."
            )
        return self.model.init(key, spec)

    def check_network(self, spec: Spec, row: Rows) -> None:
        """A score for each class, where the network classifies."""
        check = check_scores_of_classes if self.loss == "cross_entropy" else check_takes
        check("Supervised", self.model, spec, row)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """The loss of each row."""
        if self.loss == "cross_entropy":
            return cross_entropy(self.predict(model, rows.x), rows.y, self.class_weights)
        loss = self.loss if callable(self.loss) else LOSSES[self.loss]
        losses = loss(self.predict(model, rows.x), rows.y)
        if jnp.shape(losses) != rows.y.shape[:1]:  # padding could not be told from rows
            raise ParameterError(
                f"Supervised: loss must return one number for each row, of shape "
                f"{rows.y.shape[:1]}; got the shape {jnp.shape(losses)}. Take the mean over all "
                f"axes but the first, and none over rows."
            )
        return losses

    def predict(self, model: Tree, x: Held) -> Array:
        """The outputs of the network."""
        return computed(self.model.apply, model, x, self.compute, self.rematerialise)

    @property
    def link(self) -> str | None:
        """By the loss; of one of your own it is not known."""
        return None if callable(self.loss) else _LINKS[self.loss]

    def metrics(self) -> Mapping[str, Metric]:
        """Loss, and accuracy where the network classifies."""
        if self.loss == "cross_entropy":
            return {"accuracy": accuracy(self), **super().metrics()}
        return super().metrics()
