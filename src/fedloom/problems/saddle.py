"""Saddle problems: minimised over the model x, maximised over a dual y.

Each row has a loss f(x, y), smooth, and strongly concave in y. What the clients' means
f_i(x, y) pose together depends on whether they share the dual, which the method decides:

    shared    (SH)     min_x  max_y  sum_i a_i f_i(x, y)  + g(x)
    separate  (SEP)    min_x  sum_i a_i max_{y_i} f_i(x, y_i)  + g(x)

SEP is at least SH, and equal only where all clients have the same best y. The weights a_i are a
field of the problem: 1/n each, or by number of rows.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax

from fedloom.errors import ParameterError, unwritten
from fedloom.layout import Layout, layout_of
from fedloom.parameters import anything, at_least_zero, param, parametrised, positive
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.regularisers import Regulariser
from fedloom.rows import ClientRows, Rows, Spec
from fedloom.saddle_objective import SaddleObjective
from fedloom.types import Array, Held, Scalar, Tree


class SaddleProblem(Problem):
    """Base of the saddle problems."""

    kind: ClassVar[str] = "saddle"
    weak_convexity: float = 0.0  # f(x, y) + (weak_convexity / 2) |x|^2 is convex in x

    def init_dual(self, key: Array, spec: Spec) -> Tree:
        """The arrays of a fresh dual."""
        raise unwritten(self, "init_dual")

    def saddle_losses(self, x: Tree, y: Tree, rows: Rows) -> Array:
        """The loss f(x, y) of each row."""
        raise unwritten(self, "saddle_losses")

    @property
    def strong_concavity(self) -> Scalar:
        """The modulus with which every f(x, .) is strongly concave."""
        raise NotImplementedError

    def metrics(self) -> Mapping[str, Metric]:
        """None of clients: without its dual, a model has no loss."""
        return {}

    def layout(self, spec: Spec) -> Layout:
        """How the two vectors fold."""
        dual = layout_of(lambda: self.init_dual(jax.random.key(0), spec))
        return super().layout(spec)._replace(dual=dual)

    def objective(
        self, layout: Layout, held: ClientRows, batch_size: int | None
    ) -> SaddleObjective:
        """The oracles of a client that holds these rows."""
        return SaddleObjective(self, layout, held, batch_size)


def weak_convexity_param() -> Any:
    """The field for how far the loss is from convex in the model."""
    doc = "f(x, y) + (weak_convexity / 2) |x|^2 is convex in x; 0 for linear scores"
    return param(at_least_zero, doc, default=0.0)


@parametrised
class Saddle(SaddleProblem):
    """A saddle problem with a loss of your own.

    `loss(x, y, rows)` returns one number for each row; `primal(key, spec)` and `dual(key, spec)`
    return the initial arrays of x and y; `score(x, features)`, if given, returns the scores of rows
    for metrics such as "auc".
    """

    loss: Callable[[Tree, Tree, Rows], Array] = param(
        anything, "function (x, y, rows) -> a number for each row"
    )
    primal: Callable[[Array, Spec], Tree] = param(anything, "function (key, spec) -> arrays of x")
    dual: Callable[[Array, Spec], Tree] = param(anything, "function (key, spec) -> arrays of y")
    concavity: float = param(positive, "modulus of strong concavity in y")
    score: Callable[[Tree, Held], Array] | None = param(
        anything, "function (x, features) -> scores; none: no scores", default=None
    )
    weak_convexity: float = weak_convexity_param()
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()

    def init(self, key: Array, spec: Spec) -> Tree:
        """What `primal` returns."""
        return self.primal(key, spec)

    def init_dual(self, key: Array, spec: Spec) -> Tree:
        """What `dual` returns."""
        return self.dual(key, spec)

    def saddle_losses(self, x: Tree, y: Tree, rows: Rows) -> Array:
        """What `loss` returns."""
        return self.loss(x, y, rows)

    def predict(self, model: Tree, x: Held) -> Array:
        """What `score` returns."""
        if self.score is None:
            raise ParameterError(
                "Saddle: score must be a function (x, features) -> scores for metrics of scores; "
                "got none. Pass score = ..., or leave such metrics out."
            )
        return self.score(model, x)

    @property
    def strong_concavity(self) -> Scalar:
        """As stated."""
        return self.concavity
