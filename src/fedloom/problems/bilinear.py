"""A bilinear saddle with quadratic terms: the example whose solution is known.

Row j carries a matrix K (its features) and a vector (b, c) (its label):

    f(x, y) = (convexity / 2) |x|^2 + x'K y - (concavity / 2) |y|^2 + b'x - c'y

With means over a client's rows, the best y at x is (K_i'x - c_i) / concavity, so that both
problems, shared and separate dual, are quadratics in x with solutions by linear algebra.
"""

import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.parameters import at_least_zero, param, parametrised, positive
from fedloom.problems.base import l2_param, regulariser_param, weights_param
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.saddle import SaddleProblem
from fedloom.rows import Rows, Spec
from fedloom.types import Array, Scalar, Tree


@parametrised
class Bilinear(SaddleProblem):
    """A bilinear-quadratic saddle whose rows carry the coefficients."""

    convexity: float = param(at_least_zero, "weight of |x|^2 / 2", default=1.0)
    concavity: float = param(positive, "weight of |y|^2 / 2", default=1.0)
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero."""
        return jnp.zeros(self._shape(spec)[0], spec.dtype)

    def init_dual(self, key: Array, spec: Spec) -> Tree:
        """Zero."""
        return jnp.zeros(self._shape(spec)[1], spec.dtype)

    def saddle_losses(self, x: Tree, y: Tree, rows: Rows) -> Array:
        """The quadratic of each row."""
        b, c = rows.y[:, : x.size], rows.y[:, x.size :]
        common = 0.5 * self.convexity * (x @ x) - 0.5 * self.concavity * (y @ y)
        return common + rows.x @ y @ x + b @ x - c @ y

    @property
    def strong_concavity(self) -> Scalar:
        """The weight of |y|^2 / 2."""
        return self.concavity

    def _shape(self, spec: Spec) -> tuple[int, ...]:
        if len(spec.features) != 2:
            raise DataError(
                f"Bilinear needs rows that are matrices, with labels (b, c); rows have shape "
                f"{spec.features}. Pass x of shape (rows, primal, dual)."
            )
        return spec.features
