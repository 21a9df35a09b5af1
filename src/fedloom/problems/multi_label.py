"""Several labels a row, each of which may hold or not: one sigmoid for each.

With scores s_1, ..., s_k of a row and labels y_1, ..., y_k of 0 and 1, its loss is the mean over
the labels of log(1 + exp(s_j)) - y_j s_j.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models.base import Model
from fedloom.parameters import at_least, param, parametrised
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.linear import intercept_param, softplus
from fedloom.problems.outputs import check_scores
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.scoring import fresh, model_param, scored
from fedloom.rows import Rows, Spec
from fedloom.types import Array, Held, Tree


@parametrised
class MultiLabel(Problem):
    """Classify each row by several labels at once: a sigmoid and its cross-entropy for each.

    Labels have the shape (rows, k), of 0 and 1.
    """

    labels: int | None = param(
        at_least(1).or_none("as the data have"), "k, how many labels a row has", default=None
    )
    model: Model | None = model_param()
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    intercept: bool = intercept_param()

    def agree(self, clients: Any) -> "MultiLabel":
        """The problem with the number of labels that the rows have."""
        y = clients.train.y
        if y.ndim != 2 or clients.classes != 2:
            raise DataError(
                f"MultiLabel needs labels of shape (rows, k), whole numbers 0 and 1; the data have "
                f"{clients.classes} classes in the shape {y.shape}. Use Logistic or Multinomial "
                f"where a row has one label."
            )
        if self.labels not in (None, y.shape[1]):
            raise DataError(
                f"MultiLabel: labels must be as many as the data have, {y.shape[1]}; got "
                f"{self.labels}. Leave it out."
            )
        return dataclasses.replace(self, labels=y.shape[1])

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights, or a fresh network, with a score for each label."""
        if self.labels is None:
            raise DataError(
                "MultiLabel must know how many labels there are. State labels, or let "
                "problem.agree(clients) look."
            )
        return fresh(self.model, self.intercept, key, spec, self.labels)

    def check_network(self, spec: Spec, row: Rows) -> None:
        """A score for each label."""
        if self.model is not None and self.labels is not None:
            check_scores(
                "MultiLabel", self.model, spec._replace(classes=self.labels), row, self.labels
            )

    def losses(self, model: Tree, rows: Rows) -> Array:
        """The mean over the labels of a row."""
        scores = self.predict(model, rows.x)
        return softplus(jnp.where(rows.y > 0, -scores, scores)).mean(-1)

    def predict(self, model: Tree, x: Held) -> Array:
        """A score for each label; above 0 it holds."""
        return scored(self.model, model, x)

    @property
    def link(self) -> str:
        """Log-odds; in metrics of scores every label counts as a row."""
        return "logit"

    def metrics(self) -> Mapping[str, Metric]:
        """The share of labels that are right, the share of rows that are right in all, and loss."""

        def right(model: Tree, rows: Rows) -> Array:
            return (self.predict(model, rows.x) > 0) == (rows.y > 0)

        return {
            "accuracy": Metric(lambda model, rows: right(model, rows).mean(-1), True),
            "exact": Metric(lambda model, rows: right(model, rows).all(-1), True),
            **super().metrics(),
        }
