"""Classification that withstands a perturbation of the features.

    f(theta, delta) = loss(h(x + delta), label) - penalty |delta|^2

with one perturbation delta for all rows: of the federation where the dual is shared, of the client
where it is separate (each site's own systematic error of measurement).
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from fedloom.models.base import Model
from fedloom.parameters import instance_of, param, parametrised, positive
from fedloom.problems.base import Metric, l2_param, regulariser_param, weights_param
from fedloom.problems.linear import Logistic, accuracy, cross_entropy
from fedloom.problems.outputs import check_scores_of_classes
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.saddle import SaddleProblem, weak_convexity_param
from fedloom.rows import Rows, Spec
from fedloom.types import Array, Held, Scalar, Tree


@parametrised
class Adversarial(SaddleProblem):
    """Robust classification: logistic regression, or a network with cross-entropy.

    With linear scores f is convex in theta, and strongly concave in delta with modulus
    2 penalty - |theta|^2 / 4; the modulus stated to methods is half of the penalty's own, which
    holds while |theta|^2 <= 4 penalty. A `Ball` as the regulariser enforces that.
    """

    penalty_strength: float = param(positive, "weight of |delta|^2 in the adversary's cost")
    model: Model | None = param(
        instance_of(Model).or_none("binary logistic regression"), "the network", default=None
    )
    weak_convexity: float = weak_convexity_param()
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights, or fresh arrays of the network."""
        if self.model is None:
            return Logistic().init(key, spec)
        return self.model.init(key, spec)

    def check_network(self, spec: Spec, row: Rows) -> None:
        """A score for each class."""
        if self.model is not None:
            check_scores_of_classes("Adversarial", self.model, spec, row)

    def init_dual(self, key: Array, spec: Spec) -> Tree:
        """No perturbation."""
        return jnp.zeros(spec.features, spec.dtype)

    def saddle_losses(self, x: Tree, y: Tree, rows: Rows) -> Array:
        """The loss of each perturbed row, less what the perturbation costs."""
        moved = Rows(rows.x + y, rows.y)
        if self.model is None:
            losses = Logistic().losses(x, moved)
        else:
            losses = cross_entropy(self.predict(x, moved.x), moved.y)
        return losses - self.penalty_strength * (y * y).sum()

    @property
    def strong_concavity(self) -> Scalar:
        """The penalty's 2 penalty_strength, of which half is left to the loss."""
        return self.penalty_strength

    def predict(self, model: Tree, x: Held) -> Array:
        """Scores of unperturbed rows."""
        if self.model is None:
            return x.reshape(x.shape[0], int(np.prod(x.shape[1:]))) @ model
        return self.model.apply(model, x)

    @property
    def link(self) -> str:
        """Of logistic regression, or of a network with cross-entropy."""
        return "logit" if self.model is None else "softmax"

    def metrics(self) -> Mapping[str, Metric]:
        """Accuracy on rows as they are."""
        return {
            "accuracy": Logistic().metrics()["accuracy"] if self.model is None else accuracy(self)
        }
