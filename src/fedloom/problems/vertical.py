"""Vertical problems: every party has some columns of the same rows, one of them has the labels.

    min_x  l(sum_i A_i x_i, b) + sum_i r_i(x_i),      r_i(x_i) = (l2 / 2) |x_i|^2 + g(x_i)

The loss l is a sum over rows, as in the papers on this problem, or with `mean` their mean. The two
pose the same problem where l2 and g are divided by the number of rows as well; but the saddle point
methods, unlike gradient descent, do not take the same steps then. With a network, A_i is not the
party's features but what its own network makes of them, and the network is trained too.

With a fusion network at the label party the scores are no sum. Each party's network gives an
embedding h_i(x_i) of every row, and the fusion network takes them one after the other:

    min_{w, x}  l(fusion(w, [h_1(x_1), ..., h_n(x_n)]), b) + (l2 / 2) (|w|^2 + sum_i |x_i|^2)
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from fedloom.errors import DataError, ParameterError
from fedloom.layout import Layout, layout_of
from fedloom.models.base import Model
from fedloom.parameters import at_least, flag, instance_of, one_of, param, parametrised
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param
from fedloom.problems.losses import LOSSES, Loss
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.two_classes import numbers_for_classes
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree

LABEL_PARTY = "label party"  # under which a model has the fusion network
_LINKS = {"squared": "identity", "logistic": "logit", "softmax": "softmax"}


@parametrised
class Vertical(Problem):
    """One model over the columns of several parties; the labels stay with one of them.

    With the losses `squared` and `logistic` two classes count as -1 and +1.
    """

    kind: ClassVar[str] = "vertical"

    loss: str = param(one_of(*LOSSES), "the loss of the summed scores", default="squared")
    mean: bool = param(flag, "whether the loss is the mean over rows, not the sum", default=False)
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    network: Model | None = param(
        instance_of(Model).or_none("linear in the features"),
        "the network through which each party passes its features",
        default=None,
    )
    embedding: int = param(at_least(1), "how many outputs a party's network has", default=8)
    fusion: Model | None = param(
        instance_of(Model).or_none("the parties' parts are summed"),
        "the label party's network over the outputs of the parties' networks, side by side",
        default=None,
    )

    def __post_init__(self) -> None:
        """A fusion network needs something to fuse."""
        if self.fusion is not None and self.network is None:
            raise ParameterError(
                "Vertical: a fusion network takes the outputs of the parties' networks, and "
                "network is None. Give the parties one, such as fl.models.MLP(hidden=())."
            )
        for name in ("network", "fusion"):
            model = getattr(self, name)
            if model is not None and model.trains_otherwise:
                raise ParameterError(
                    f"Vertical: {name} must compute the same in training and in evaluation; got "
                    f"{model!r}. Leave out its dropout, and choose norm='group' or 'frozen' for "
                    f"batch norms."
                )

    def client_weights(self, sizes: Sequence[int] | np.ndarray) -> np.ndarray:
        """One for each party: their scores are summed."""
        return np.ones(len(sizes))

    def share(self, key: Array, width: int, classes: int, dtype: str) -> Tree:
        """A party's part of a fresh model: zeros, behind a random network where there is one."""
        inputs = width if self.network is None else self.embedding
        columns = (classes,) if self.loss == "softmax" else ()
        head = jnp.zeros((inputs, *columns), dtype)
        if self.network is None:
            return head
        network = self.network.init(key, Spec((width,), self.embedding, dtype))
        return {"network": network} if self.fusion else {"head": head, "network": network}

    def share_layout(self, width: int, classes: int, dtype: str) -> Layout:
        """How a party's vector folds into its part of the model."""
        return layout_of(lambda: self.share(jax.random.key(0), width, classes, dtype))

    def joint_layout(self, shares: Mapping[str, int], classes: int, dtype: str) -> Layout:
        """How the parties' vectors, one after the other by name, fold into a model."""
        key = jax.random.key(0)

        def whole() -> Tree:
            parts = {n: self.share(key, w, classes, dtype) for n, w in shares.items()}
            if self.fusion is not None:
                if LABEL_PARTY in parts:
                    raise DataError(
                        f"no party with features may be called {LABEL_PARTY!r}: the fusion network "
                        f"has this name in a model. Rename the party."
                    )
                parts[LABEL_PARTY] = self.fresh_fusion(key, len(shares), classes, dtype)
            return parts

        return layout_of(whole)

    def fresh_fusion(self, key: Array, parties: int, classes: int, dtype: str) -> Tree:
        """The arrays of a fresh fusion network; none without one."""
        if self.fusion is None:
            return ()
        outputs = classes if self.loss == "softmax" else 0  # else one score a row
        return self.fusion.init(key, Spec((parties * self.embedding,), outputs, dtype))

    def fusion_layout(self, parties: int, classes: int, dtype: str) -> Layout | None:
        """How the fusion network's vector folds into arrays; None without one."""
        if self.fusion is None:
            return None
        return layout_of(lambda: self.fresh_fusion(jax.random.key(0), parties, classes, dtype))

    def fused(self, fusion: Array, parts: Array, classes: int) -> Array:
        """The scores of rows, from the parties' parts (n, rows, ...): their sum without a network.

        Args:
            fusion: The fusion network as a vector; an empty one without it.
            parts: What each party's share makes of the rows.
            classes: How many there are.
        """
        layout = self.fusion_layout(len(parts), classes, str(parts.dtype))
        if self.fusion is None or layout is None:
            return parts.sum(0)
        rows = parts.shape[1]
        side_by_side = jnp.moveaxis(parts, 0, 1).reshape(rows, -1)
        scores = self.fusion.apply(layout.unravel(fusion), side_by_side)
        wanted = (rows, classes) if self.loss == "softmax" else (rows,)
        if scores.size != np.prod(wanted):
            raise DataError(
                f"Vertical: fusion must have outputs of shape {wanted[1:] or (1,)} for a row with "
                f"loss {self.loss!r}; {self.fusion!r} has {scores.shape[1:]}. Let its last layer "
                f"have as many outputs."
            )
        return scores.reshape(wanted)

    def rows_loss(
        self, fusion: Array, parts: Array, labels: Array, total: int, classes: int
    ) -> Array:
        """The loss of some of `total` rows; of rows drawn alike, its mean is the loss of all."""
        loss = self.loss_at(labels, classes, parts.dtype)
        scale = 1 if self.mean else total / labels.shape[0]
        return scale * loss.value(self.fused(fusion, parts, classes))

    def targets(self, y: np.ndarray, classes: int, dtype: str) -> np.ndarray:
        """The labels as the loss takes them: -1 and +1, numbers, or classes.

        Args:
            y: Classes 0, 1, ..., or numbers.
            classes: How many classes there are; 0 for numbers.
            dtype: Of numbers.
        """
        if self.loss != "squared" and classes == 0:
            raise numbers_for_classes(f"loss {self.loss!r}", "Use 'squared' for a regression.")
        if self.loss == "softmax" and classes < 2:
            raise DataError(
                f"loss 'softmax' needs labels of 2 classes or more; the data have {classes}. Add "
                f"rows of another class."
            )
        if self.loss == "logistic" and classes != 2:
            raise DataError(
                f"loss 'logistic' needs labels of 2 classes; the data have {classes}. "
                f"Use 'softmax' for several classes or 'squared' for a regression."
            )
        if self.loss == "softmax":
            return np.asarray(y, np.int32)
        return np.asarray(2 * y - 1 if classes == 2 else y, dtype)

    def loss_at(self, targets: Held, classes: int, dtype: DTypeLike) -> Loss:
        """The loss at these labels."""
        weight = 1 / targets.shape[0] if self.mean else 1.0
        return LOSSES[self.loss](targets, classes, dtype, weight)

    @property
    def link(self) -> str:
        """By the loss."""
        return _LINKS[self.loss]

    def metrics(self) -> Mapping[str, Metric]:
        """Loss, and accuracy where the loss classifies; functions of scores and targets."""
        losses = Metric(self._losses, larger_is_better=False)
        if self.loss == "squared":
            return {"loss": losses}
        return {"accuracy": Metric(self._correct, larger_is_better=True), "loss": losses}

    def _losses(self, scores: Array, targets: Array) -> Array:
        return self.loss_at(targets, scores.shape[-1], scores.dtype).of_rows(scores)

    def _correct(self, scores: Array, targets: Array) -> Array:
        if self.loss == "softmax":
            return scores.argmax(-1) == targets
        return (scores > 0) == (targets > 0)
