"""Counts: Poisson regression with the logarithm as its link.

The mean of a count y of a row a with exposure e (a time, a number of persons; 1 where there is
none) is m = e exp(a'w + b). The loss of a row is half its deviance,

    y log(y / m) - y + m,

which is minus the log-likelihood up to a number that does not depend on the model. scikit-learn's
PoissonRegressor minimises the mean of the same, with alpha = l2; rows with exposure are there rows
of y / e with the weight e, of which this is e times the mean.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError
from fedloom.layout import Layout
from fedloom.models.base import Model
from fedloom.objective import Objective
from fedloom.parameters import flag, param, parametrised
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.linear import check_numbers, intercept_param
from fedloom.problems.outputs import check_scores
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.scoring import fresh, model_param, scored
from fedloom.rows import Batch, ClientRows, Rows, Spec
from fedloom.types import Array, Held, Tree


class Counts(Objective):
    """The oracles of a client, which see zeros in the place of padding.

    Padding are rows of others, on which an exponential may overflow where it does not on its own;
    the gradient would be nan then.
    """

    def _value(self, model: Tree, batch: Batch) -> Array:
        if batch.counts is not None:
            x = batch.rows.x
            own = jnp.where(batch.counts.reshape(-1, *(1,) * (x.ndim - 1)), x, 0)
            batch = batch._replace(rows=batch.rows._replace(x=own))
        return super()._value(model, batch)


@parametrised
class Poisson(Problem):
    """Poisson regression of counts, log link: half the deviance y log(y / m) - y + m.

    Labels are counts; with `exposure` they are pairs of a count and an exposure.
    """

    exposure: bool = param(
        flag, "whether labels are pairs of a count and an exposure", default=False
    )
    model: Model | None = model_param()
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    intercept: bool = intercept_param()

    def agree(self, clients: Any) -> "Poisson":
        """The problem as it is, for labels that can be counts and exposures."""
        y = np.asarray(clients.train.y)
        counts = y[:, 0] if self.exposure and y.ndim == 2 else y
        _check_labels("counts must be numbers >= 0", counts < 0)
        if self.exposure and y.ndim == 2 and y.shape[1] == 2:
            _check_labels("exposures must be numbers > 0", y[:, 1] <= 0)
        return self

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights, or a fresh network."""
        check_numbers("Poisson", spec)
        return fresh(self.model, self.intercept, key, spec, 0)

    def check_network(self, spec: Spec, row: Rows) -> None:
        """One score for a row."""
        if self.model is not None:
            check_scores("Poisson", self.model, spec._replace(classes=0), row, 1)

    def objective(self, layout: Layout, held: ClientRows, batch_size: int | None) -> Counts:
        """The oracles of a client."""
        return Counts(self, layout, held, batch_size)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """Half the deviance of each row."""
        score, y = self._scores(model, rows.x), rows.y
        if self.exposure:
            if y.ndim != 2 or y.shape[1] != 2:
                raise DataError(
                    f"Poisson: with exposure, labels must have the shape (rows, 2), count and "
                    f"exposure; got {y.shape}. Name the column with exposure in [data]."
                )
            y, score = y[:, 0], score + jnp.log(y[:, 1])
        elif y.ndim != 1:
            raise DataError(
                f"Poisson: labels must be one count a row; got the shape {y.shape}. Set "
                f"exposure = true where they are pairs of count and exposure."
            )
        # y (m / y - 1 - log(m / y)): the parts of the sum above are far larger than it is.
        count = jnp.where(y > 0, y, 1)
        apart = score - jnp.log(count)
        return jnp.where(y > 0, count * (jnp.expm1(apart) - apart), jnp.exp(score))

    def _scores(self, model: Tree, x: Held) -> Array:
        return scored(self.model, model, x).reshape(x.shape[0])

    def predict(self, model: Tree, x: Held) -> Array:
        """The expected count of each row, at an exposure of 1."""
        return jnp.exp(self._scores(model, x))

    @property
    def link(self) -> str:
        """What is predicted is the value."""
        return "identity"

    def metrics(self) -> Mapping[str, Metric]:
        """The mean deviance, and the loss, which is half of it."""

        def deviance(model: Tree, rows: Rows) -> Array:
            return 2 * self.losses(model, rows)

        return {"deviance": Metric(deviance, larger_is_better=False), **super().metrics()}


def _check_labels(rule: str, wrong: np.ndarray) -> None:
    if wrong.any():
        raise DataError(
            f"Poisson: {rule}; {int(wrong.sum())} of {wrong.size} are not. Correct them, or use "
            f"LeastSquares for numbers of both signs."
        )
