"""Maximise the AUC: the square-loss saddle form, in which no pair of rows has to meet.

For a score h of a row, p the share of positive rows, and the dual a single number alpha:

    f = p(1-p) + (1-p)(h - a)^2 [positive] + p (h - b)^2 [negative]
        + 2 (1 + alpha) h (p [negative] - (1-p) [positive]) - p(1-p) alpha^2

Over all rows together, at the best a, b and alpha (the mean score of the positives, that of the
negatives, and b - a), f is p(1-p) times the mean of (1 - (h+ - h-))^2 over all pairs of a positive
and a negative row.

p is one number for the whole federation. A client with rows of one class alone would find 0 or 1,
and strong concavity would be lost. So clients agree on it before the first round, by adding up two
counts each.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError, ParameterError
from fedloom.models.base import Model
from fedloom.parameters import between, instance_of, param, parametrised
from fedloom.problems.base import Metric, l2_param, regulariser_param, weights_param
from fedloom.problems.linear import check_one_label
from fedloom.problems.outputs import check_scores
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.saddle import SaddleProblem, weak_convexity_param
from fedloom.problems.two_classes import not_two_classes, numbers_for_classes
from fedloom.rows import Rows, Spec
from fedloom.types import Array, Held, Scalar, Tree

_OTHERS = "Choose two of them, or another problem."


@parametrised
class AUC(SaddleProblem):
    """Area under the ROC curve, by a saddle form of the square loss over pairs.

    The model has the arrays "w" (a vector, or those of the score network) and "bias": the two
    centres a and b, on which neither the penalty nor a regulariser acts.
    """

    positive_rate: float | None = param(
        between(0, 1).or_none("from the clients' counts"), "p, the share of positive rows",
        default=None,
    )  # fmt: skip
    model: Model | None = param(
        instance_of(Model).or_none("linear scores"), "the network that scores a row", default=None
    )
    weak_convexity: float = weak_convexity_param()
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()

    def agree(self, clients: Any) -> "AUC":
        """The problem with the positive rate that the clients' counts give."""
        check_one_label("AUC", clients)
        if clients.classes not in (0, 2):  # none: a regression
            raise not_two_classes("AUC", clients, _OTHERS)
        if self.positive_rate is not None:
            return self
        counts = [np.count_nonzero(clients.of(i).y > 0) for i in range(len(clients))]
        rate = sum(counts) / int(clients.sizes.sum())
        if not 0 < rate < 1:
            raise DataError(
                f"AUC needs rows of both classes in the federation; the share of positive rows is "
                f"{rate:g}. Check the labels."
            )
        return dataclasses.replace(self, positive_rate=rate)

    @property
    def influences(self) -> tuple[float, ...] | None:
        """P for negative rows, 1 - p for positive ones."""
        p = self.positive_rate
        return None if p is None else (p, 1 - p)

    def init(self, key: Array, spec: Spec) -> Tree:
        """A fresh score model, and both centres at zero."""
        if spec.classes == 0:
            raise numbers_for_classes("AUC", "Choose another problem for a regression.")
        if spec.classes != 2:
            raise DataError(
                f"AUC needs labels of 2 classes; the data have {spec.classes}. {_OTHERS}"
            )
        if self.model is None:
            scorer: Tree = jnp.zeros(int(np.prod(spec.features)), spec.dtype)
        else:
            scorer = self.model.init(key, spec._replace(classes=0))  # one score a row
        return {"w": scorer, "bias": jnp.zeros(2, spec.dtype)}

    def check_network(self, spec: Spec, row: Rows) -> None:
        """One score for a row."""
        if self.model is not None:
            check_scores("AUC", self.model, spec._replace(classes=0), row, 1)

    def init_dual(self, key: Array, spec: Spec) -> Tree:
        """Alpha, at zero."""
        return jnp.zeros((), spec.dtype)

    def saddle_losses(self, x: Tree, y: Tree, rows: Rows) -> Array:
        """The loss of each row; the labels 0 and 1 stand for negative and positive."""
        p, h = self._rate, self.predict(x, rows.x)
        a, b = x["bias"]
        positive = (1 - p) * ((h - a) ** 2 - 2 * (1 + y) * h)
        negative = p * ((h - b) ** 2 + 2 * (1 + y) * h)
        return jnp.where(rows.y > 0, positive, negative) + p * (1 - p) * (1 - y * y)

    @property
    def strong_concavity(self) -> Scalar:
        """2 p (1 - p)."""
        return 2 * self._rate * (1 - self._rate)

    @property
    def _rate(self) -> Scalar:
        if self.positive_rate is None:
            raise ParameterError(
                "AUC: positive_rate must be known to take a loss; got none. State it, or let "
                "problem.agree(clients) count."
            )
        return self.positive_rate

    def predict(self, model: Tree, x: Held) -> Array:
        """The score of each row."""
        if self.model is None:
            return x.reshape(x.shape[0], -1) @ model["w"]
        return self.model.apply(model["w"], x).reshape(-1)

    def scores(self, model: Tree, x: Held) -> Array:
        """The score less the threshold half-way between the centres."""
        return self.predict(model, x) - model["bias"].mean()

    @property
    def link(self) -> str:
        """Scores order rows and decide; they are no probabilities."""
        return "sign"

    def metrics(self) -> Mapping[str, Metric]:
        """Accuracy with the threshold half-way between the centres; "auc" is of the whole."""

        def correct(model: Tree, rows: Rows) -> Array:
            return (self.predict(model, rows.x) > model["bias"].mean()) == (rows.y > 0)

        return {"accuracy": Metric(correct, larger_is_better=True)}
