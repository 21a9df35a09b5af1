"""What a problem is: the losses of rows, a smooth penalty, a regulariser, and weights of clients.

Together they pose   min_w  sum_i a_i f_i(w) + g(w),   f_i(w) = mean loss of client i + penalty(w).
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError, unwritten
from fedloom.layout import FREE, Layout, last_name, layout_of
from fedloom.models.base import InTraining, Model
from fedloom.objective import Objective, Oracle
from fedloom.parameters import at_least_zero, instance_of, one_of, param
from fedloom.problems.regularisers import Regulariser, Zero
from fedloom.rows import Batch, ClientRows, Rows, Spec
from fedloom.types import Array, Held, Tree


class Metric(NamedTuple):
    """A measure of how good a model is, and whether larger values of it are better.

    With `of="rows"`, `function(model, rows)` returns one number for each row, compiled by JAX;
    the metric is their mean over a client's rows. With `of="scores"`, `function(scores, labels)`
    gets NumPy arrays with the scores (as `Problem.scores` gives them) and the labels of many rows,
    and returns one number for all of them.
    """

    function: Callable[[Any, Any], Any]  # arrays or numbers, as `of` says
    larger_is_better: bool
    of: str = "rows"

    def number(self, name: str, scores: np.ndarray, labels: np.ndarray) -> float:
        """The value of one that is of scores; raises ParameterError where it is not one number."""
        value = self.function(scores, labels)
        try:
            return float(value)
        except (TypeError, ValueError):
            got = f"shape {np.shape(value)}" if np.ndim(value) else repr(value)
            raise ParameterError(
                f"metrics: {name!r} is of scores and must return one number for all of them; got "
                f"{got}. For a number of each row, which is averaged, write of='rows'."
            ) from None


class Problem:
    """Base of the problems with a mean loss over rows."""

    __parametrised__: ClassVar[bool] = True
    kind: ClassVar[str] = "smooth"  # algorithms that take this kind fit
    also: ClassVar[tuple[str, ...]] = ()  # and those of these kinds, which see a part of it
    l2: float  # weight of the smooth penalty (l2 / 2) |w|^2
    regulariser: Regulariser  # g
    weights: str  # how clients count: "equal", or by their number of rows, "size"

    def init(self, key: Array, spec: Spec) -> Tree:
        """The arrays of a fresh model.

        Args:
            key: A random key.
            spec: The shape of a row's features, the number of classes, and the dtype.
        """
        raise unwritten(self, "init")

    def losses(self, model: Tree, rows: Rows) -> Array:
        """The loss of each row.

        Args:
            model: Arrays as `init` returns them.
            rows: Features `rows.x` and labels `rows.y`, stacked along a first axis.
        """
        raise unwritten(self, "losses")

    def predict(self, model: Tree, x: Held) -> Array:
        """What the model says of each row: a score, a value, or one score for each class."""
        raise unwritten(self, "predict")

    def scores(self, model: Tree, x: Held) -> Array:
        """What metrics of scores see of each row; where one score decides, 0 is the threshold."""
        return self.predict(model, x)

    @property
    def link(self) -> str | None:
        """What scores say: "logit", "softmax", "sign" or "identity" (`metrics/links.py`)."""
        return None

    def penalty(self, model: Tree) -> Array:
        """The smooth penalty (l2 / 2) |w|^2, which is a part of every f_i; biases go free."""
        squares = [
            (leaf * leaf).sum()
            for path, leaf in jax.tree_util.tree_leaves_with_path(model)
            if last_name(path) not in FREE
        ]
        return 0.5 * self.l2 * sum(squares, start=jnp.zeros(()))

    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that make sense for this problem; the first is the main one."""
        return {"loss": Metric(self.losses, larger_is_better=False)}

    def client_weights(self, sizes: Sequence[int] | np.ndarray) -> np.ndarray:
        """The weights a_i, which sum to one: all alike, or by the number of rows."""
        sizes = np.asarray(sizes, float)
        raw = sizes if self.weights == "size" else np.ones_like(sizes)
        return raw / raw.sum()

    def augmented(self, batch: Batch, key: Array) -> Batch:
        """A batch as gradients see it: by default as it was drawn.

        Args:
            batch: Rows of a client.
            key: The key by which they were drawn.
        """
        return batch

    def in_training(self, batch: Batch) -> "Problem":
        """The problem as oracles see it on a batch: its network, the field `model`, in training.

        Metrics and predictions see the network as in evaluation.

        Args:
            batch: What is trained on.
        """
        network = getattr(self, "model", None)
        if not isinstance(network, Model) or type(network).train_apply is Model.train_apply:
            return self
        seen = copy.copy(self)  # not `replace`: its fields were checked, and are traced by now
        object.__setattr__(seen, "model", InTraining(network, batch.drawn))
        return seen

    def agree(self, clients: Any) -> "Problem":
        """The problem with what the clients settle before the first round, from counts alone."""
        return self

    @property
    def influences(self) -> tuple[float, ...] | None:
        """What a row of each class counts, in the problem that clients agreed on; None: alike."""
        return None

    def layout(self, spec: Spec) -> Layout:
        """How a vector is divided into the arrays of a model, for rows of this `spec`."""
        return layout_of(lambda: self.init(jax.random.key(0), spec))

    def check_network(self, spec: Spec, row: Rows) -> None:
        """Raise DataError where the problem's network does not fit the data.

        Args:
            spec: As for `init`.
            row: The shapes and types of a row's features and labels.
        """

    def groups(self, clients: Any) -> list[tuple["Problem", Sequence[int] | None]]:
        """The clients whose models have the same shapes, each set with its problem.

        By default all clients are alike: one group, with None for everyone.
        """
        return [(self, None)]

    def objective(self, layout: Layout, held: ClientRows, batch_size: int | None) -> Oracle:
        """The oracles of a client that holds these rows."""
        return Objective(self, layout, held, batch_size)


def l2_param() -> Any:
    """The field for the smooth penalty."""
    return param(at_least_zero, "weight of the smooth penalty (l2 / 2) |w|^2", default=0.0)


def regulariser_param() -> Any:
    """The field for g."""
    rule = instance_of(Regulariser)
    return param(rule, "the regulariser or constraint g, known by its prox", default=Zero())


def weights_param() -> Any:
    """The field for the weights of the clients."""
    doc = "how clients count in the objective: all alike, or by their number of rows"
    return param(one_of("equal", "size"), doc, default="equal")
