"""What the hub may know of a federation. In a vertical one, the hub is the label party."""

import dataclasses

import jax

from fedloom.layout import Layout
from fedloom.objective import prox
from fedloom.oracles import SaddleFedView, VerticalFedView
from fedloom.problems.base import Problem
from fedloom.problems.losses import Loss
from fedloom.problems.vertical import Vertical
from fedloom.pytrees import pytree, static
from fedloom.rows import Rows, Spec, some_rows
from fedloom.types import Array, Held, Scalar


@pytree
class Fed:
    """What the hub may know: the number of clients, their weights, and the regulariser."""

    problem: Problem  # what is optimised
    weights: Held  # (n,): the weights of the clients in the objective; they sum to one
    n: int = static()  # how many clients there are
    layout: Layout = static()  # how a vector is divided into the arrays of a model
    spec: Spec = static()  # the shape of a row's features, the number of classes, the dtype
    row: Rows | None = static(default=None)  # shape and dtype of a row; None where columns are held

    def init_model(self, key: Array) -> Array:
        """A fresh model, as a vector.

        Args:
            key: A random key.
        """
        return self.layout.ravel(self.problem.init(key, self.spec))

    def init_dual(self, key: Array) -> Array:
        """A fresh dual vector of a saddle problem."""
        return self.layout.dual.ravel(self.problem.init_dual(key, self.spec))  # type: ignore[union-attr, attr-defined]

    def prox(self, v: Array, step: Scalar) -> Array:
        """The proximal map of step * g, with g the regulariser of the problem."""
        return prox(self.problem.regulariser, self.layout, v, step)

    def regularisation(self, w: Array) -> Array:
        """The value g(w) of the regulariser."""
        return self.problem.regulariser.value(self.layout.unravel(w))


@pytree
class LabelParty(Fed):
    """The hub of a vertical federation: the party that has the labels."""

    problem: Vertical
    labels: Held = dataclasses.field(kw_only=True)  # as the loss takes them
    test_labels: Held | None = dataclasses.field(kw_only=True)  # None: there are no test rows
    # Of the parties in a model: by their names, and the label party's own part as the n-th.
    order: tuple[int, ...] = static(default=())
    batch_size: int | None = static(default=None)  # None: all rows

    def init_model(self, key: Array) -> Array:
        """Zeros."""
        return jax.numpy.zeros(self.layout.size, self.layout.dtype)

    @property
    def loss(self) -> Loss:
        """The loss at the labels."""
        return self.problem.loss_at(self.labels, self.spec.classes, self.spec.dtype)

    @property
    def fusion_layout(self) -> Layout | None:
        """How the fusion model folds into arrays; None where the parties' parts are summed."""
        return self.problem.fusion_layout(self.n, self.spec.classes, self.spec.dtype)

    def init_fusion(self, key: Array) -> Array:
        """A fresh fusion model, as a vector; an empty one where the parties' parts are summed."""
        if self.fusion_layout is None:
            return jax.numpy.zeros(0, self.spec.dtype)
        made = self.problem.fresh_fusion(key, self.n, self.spec.classes, self.spec.dtype)
        return self.fusion_layout.ravel(made)

    def fused(self, fusion: Array, parts: Array) -> Array:
        """The scores of rows, from the parties' parts (n, rows, ...) of them."""
        return self.problem.fused(fusion, parts, self.spec.classes)

    def zero_part(self) -> Array:
        """Zeros in the shape of one party's part of the scores, for all rows."""
        zeros = self.loss.zeros()
        fused = (len(zeros), self.problem.embedding)
        return zeros if self.problem.fusion is None else jax.numpy.zeros(fused, zeros.dtype)

    def batch_rows(self, key: Array) -> Array | slice:
        """The rows of the batch that a key draws."""
        return some_rows(key, len(self.labels), self.batch_size)

    def rows_loss(self, fusion: Array, parts: Array, labels: Array) -> Array:
        """An estimate of the loss of all rows, from parts and labels of some."""
        rows = len(self.labels)
        return self.problem.rows_loss(fusion, parts, labels, rows, self.spec.classes)


# What authors are promised, checked by mypy.
_PROMISE: type[SaddleFedView] = Fed
_PROMISE_OF_LABELS: type[VerticalFedView] = LabelParty
