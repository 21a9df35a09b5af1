"""Linear models: logistic, multinomial and least-squares regression."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError
from fedloom.parameters import flag, param, parametrised
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.class_weights import (
    ClassWeights,
    agreed,
    class_weights_param,
    influences,
    weighed,
)
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.two_classes import not_two_classes, numbers_for_classes
from fedloom.rows import Rows, Spec
from fedloom.types import Array, Held, Tree

_OTHERS = "Use Multinomial for several classes or LeastSquares for a regression."


def intercept_param() -> Any:
    """The field for the intercept."""
    return param(flag, "whether the model has an intercept", default=False)


@jax.custom_jvp
def softplus(s: Array) -> Array:
    """log(1 + exp(s)), with the plain derivative that loops profit from."""
    return jnp.logaddexp(s, 0)


softplus.defjvps(lambda tangent, _, s: tangent * jax.nn.sigmoid(s))


def linear_start(shape: tuple[int, ...], intercept: bool, dtype: str) -> Tree:
    """Zeros: the bare array, or the array with a bias."""
    weights = jnp.zeros(shape, dtype)
    return {"weights": weights, "bias": jnp.zeros(shape[1:], dtype)} if intercept else weights


def apply_linear(model: Tree, x: Held) -> Array:
    """The products of rows with the weights, and the bias where there is one."""
    if isinstance(model, dict):
        return x @ model["weights"] + model["bias"]
    return x @ model


def check_one_label(owner: str, clients: Any) -> None:
    """Raise DataError where rows have several labels."""
    shape = clients.train.y.shape
    if len(shape) != 1:
        raise DataError(
            f"{owner} needs one label a row, of shape (rows,); the data have labels of shape "
            f"{shape}. Choose a column, or a problem for several: MultiLabel, Cox, Poisson."
        )


def check_numbers(owner: str, spec: Spec) -> None:
    """Raise DataError where labels are classes: their places in a list are not their values."""
    if spec.classes:
        raise DataError(
            f"{owner} needs numbers to predict; the data have {spec.classes} classes. Set "
            f"regression = true in [data] (in Python regression=True): otherwise whole numbers are "
            f"taken for classes."
        )


def number_of_columns(spec: Spec) -> int:
    """How many numbers a row of features has."""
    return int(np.prod(spec.features))


@parametrised
class Logistic(Problem):
    """Binary logistic regression: loss log(1 + exp(-y a'w)) with y = +1 or -1."""

    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    intercept: bool = intercept_param()
    class_weights: ClassWeights = class_weights_param()

    def agree(self, clients: Any) -> "Logistic":
        """The problem with the weights of classes as numbers."""
        check_one_label("Logistic", clients)
        if clients.classes not in (0, 2):  # none: a regression
            raise not_two_classes("Logistic", clients, _OTHERS)
        if self.class_weights is None or clients.classes == 0:
            return self
        agreed_on = agreed("Logistic", self.class_weights, clients)
        return dataclasses.replace(self, class_weights=agreed_on)

    @property
    def influences(self) -> tuple[float, ...] | None:
        """The weights of classes."""
        return influences(self.class_weights)

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights."""
        if spec.classes == 0:
            raise numbers_for_classes("Logistic", _OTHERS)
        if spec.classes != 2:
            raise DataError(
                f"Logistic needs labels of 2 classes; the data have {spec.classes}. {_OTHERS}"
            )
        return linear_start((number_of_columns(spec),), self.intercept, spec.dtype)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """log(1 + exp(-margin)); the labels 0 and 1 stand for -1 and +1."""
        scores = self.predict(model, rows.x)
        losses = softplus(jnp.where(rows.y > 0, -scores, scores))
        if self.class_weights is None:
            return losses
        return weighed("Logistic", self.class_weights, losses, rows.y)

    def predict(self, model: Tree, x: Held) -> Array:
        """The score a'w of each row; positive means the second class."""
        return apply_linear(model, x.reshape(x.shape[0], -1))

    @property
    def link(self) -> str:
        """The score is the log-odds of the second class."""
        return "logit"

    def metrics(self) -> Mapping[str, Metric]:
        """Loss and accuracy."""

        def correct(model: Tree, rows: Rows) -> Array:
            return (self.predict(model, rows.x) > 0) == (rows.y > 0)

        return {"accuracy": Metric(correct, larger_is_better=True), **super().metrics()}


@parametrised
class Multinomial(Problem):
    """Multinomial logistic regression: cross-entropy of a linear model with a row per class."""

    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    intercept: bool = intercept_param()
    class_weights: ClassWeights = class_weights_param()

    def agree(self, clients: Any) -> "Multinomial":
        """The problem with the weights of classes as numbers."""
        check_one_label("Multinomial", clients)
        if self.class_weights is None or clients.classes == 0:
            return self
        agreed_on = agreed("Multinomial", self.class_weights, clients)
        return dataclasses.replace(self, class_weights=agreed_on)

    @property
    def influences(self) -> tuple[float, ...] | None:
        """The weights of classes."""
        return influences(self.class_weights)

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights."""
        if spec.classes == 0:
            raise numbers_for_classes("Multinomial", "Use LeastSquares for a regression.")
        if spec.classes == 1:
            raise DataError(
                "Multinomial needs labels of 2 classes or more; the data have 1. "
                "Add rows of another class."
            )
        return linear_start((number_of_columns(spec), spec.classes), self.intercept, spec.dtype)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """Cross-entropy."""
        return cross_entropy(self.predict(model, rows.x), rows.y, self.class_weights)

    def predict(self, model: Tree, x: Held) -> Array:
        """One score for each class."""
        return apply_linear(model, x.reshape(x.shape[0], -1))

    @property
    def link(self) -> str:
        """Scores are logarithms of probabilities, up to a constant."""
        return "softmax"

    def metrics(self) -> Mapping[str, Metric]:
        """Accuracy and loss."""
        return {"accuracy": accuracy(self), **super().metrics()}


@parametrised
class LeastSquares(Problem):
    """Least squares: loss (a'w - y)^2 / 2. Labels are numbers, not classes."""

    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    intercept: bool = intercept_param()

    def agree(self, clients: Any) -> "LeastSquares":
        """The problem as it is, for rows with one label each."""
        check_one_label("LeastSquares", clients)
        return self

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights."""
        check_numbers("LeastSquares", spec)
        return linear_start((number_of_columns(spec),), self.intercept, spec.dtype)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """Half the squared error."""
        error = self.predict(model, rows.x) - rows.y
        return 0.5 * error * error

    def predict(self, model: Tree, x: Held) -> Array:
        """The fitted value of each row."""
        return apply_linear(model, x.reshape(x.shape[0], -1))

    @property
    def link(self) -> str:
        """The score is the value."""
        return "identity"


def cross_entropy(scores: Array, labels: Held, weights: ClassWeights = None) -> Array:
    """-log softmax(scores)[label], row by row; the mean over a row that has several labels."""
    chosen = jnp.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    losses = jax.nn.logsumexp(scores, axis=-1) - chosen
    if weights is not None:
        losses = weighed("cross-entropy", weights, losses, labels)
    return _by_row(losses)


def _by_row(values: Array) -> Array:
    return values if values.ndim == 1 else values.reshape(values.shape[0], -1).mean(-1)


def accuracy(problem: Problem) -> Metric:
    """The share of labels at which the largest score is."""

    def correct(model: Tree, rows: Rows) -> Array:
        return _by_row(problem.predict(model, rows.x).argmax(-1) == rows.y)

    return Metric(correct, larger_is_better=True)
