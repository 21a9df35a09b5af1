"""Classification where every client has a model of its own beside the common one.

The common model is what travels. A client's own may be of another architecture and may be kept at
fewer bits; it never leaves the client. What the two teach each other, they teach by their outputs
on the client's rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fedloom.errors import DataError, ParameterError
from fedloom.layout import Layout, layout_of
from fedloom.models.base import Model
from fedloom.objective import Objective
from fedloom.operators.quantisers import FULL_PRECISION, Quantiser, layers_to_quantise
from fedloom.oracles import PersonalOracle
from fedloom.parameters import Rule, anything, instance_of, param, parametrised
from fedloom.problems.augmentation import Augmentation, augment_param
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.computing import compute_param, rematerialise_param
from fedloom.problems.linear import cross_entropy
from fedloom.problems.outputs import check_scores_of_classes
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.supervised import Supervised
from fedloom.problems.two_classes import numbers_for_classes
from fedloom.rows import Batch, ClientRows, Rows, Spec
from fedloom.types import Array, Held, Scalar, Tree


def _is_width(value: object) -> bool:
    return type(value) is int and (1 <= value <= 8 or value == FULL_PRECISION)


bits_rule = Rule(_is_width, "1 to 8, or 32 for full precision", 2)
_several_bits = Rule(
    lambda v: _is_width(v) or (isinstance(v, tuple) and v != () and all(map(_is_width, v))),
    f"{bits_rule.text}, or a list of such numbers",
    2,
)
_places = Rule(
    lambda v: isinstance(v, tuple) and all(type(place) is int for place in v),
    "a list of whole numbers",
    [0, -1],
)


class Classifier(Objective):
    """The oracles of one classifier, which may learn from another's outputs.

    `draw(key)` gives a batch that several oracles, of both models of a client, then see. Outputs
    are log-probabilities, row by row.
    """

    def __init__(
        self, problem: Any, spec: Spec, layout: Layout, held: ClientRows, batch: int | None
    ):
        super().__init__(problem, layout, held, batch)
        self.spec = spec

    def init(self, key: Array) -> Array:
        """A fresh model, as a vector."""
        return self.layout.ravel(self.problem.init(key, self.spec))

    def draw(self, key: Array) -> Batch:
        """The batch on which `grad(w, key)` would be taken."""
        return self._batch(key)

    def grad_on(self, w: Array, batch: Batch) -> Array:
        """The gradient of the loss on a batch."""
        return self._grad(w, batch)

    def outputs(self, w: Array, batch: Batch) -> Array:
        """The log-probabilities of the classes on a batch."""
        return jax.nn.log_softmax(self._scores(self.layout.unravel(w), batch))

    def learn(self, w: Array, batch: Batch, weight: Scalar, teacher: Array) -> Array:
        """The gradient of (1 - weight) f(w) + weight KL(teacher || w): data, and another model."""

        def loss(model: Tree) -> Array:
            scores = self._scores(model, batch)
            data = batch.mean(cross_entropy(scores, batch.rows.y)) + self.problem.penalty(model)
            apart = batch.mean(divergence(teacher, jax.nn.log_softmax(scores)))
            return (1 - weight) * data + weight * apart

        return self._slope(loss, w)

    def teach(self, w: Array, batch: Batch, students: Sequence[Array]) -> Array:
        """The gradient of the sum of KL(w || student): a teacher that meets its students."""

        def loss(model: Tree) -> Array:
            own = jax.nn.log_softmax(self._scores(model, batch))
            apart = [batch.mean(divergence(own, student)) for student in students]
            return sum(apart, start=jnp.zeros((), own.dtype))

        return self._slope(loss, w)

    def _scores(self, model: Tree, batch: Batch) -> Array:
        return self.problem.in_training(batch).predict(model, batch.rows.x)

    def _slope(self, loss: Callable[[Tree], Array], w: Array) -> Array:
        return self.layout.ravel(jax.grad(loss)(self.layout.unravel(w)))


def divergence(teacher: Array, student: Array) -> Array:
    """KL(teacher || student) of log-probabilities, row by row."""
    return (jnp.exp(teacher) * (teacher - student)).sum(-1)


class PersonalObjective(Classifier):
    """The common model's oracles, and beside them those of the client's own model."""

    def __init__(self, variant: "Variant", layout: Layout, held: ClientRows, batch: int | None):
        spec = variant.spec._replace(dtype=layout.dtype)
        super().__init__(variant.common, spec, layout, held, batch)
        own = layout_of(lambda: variant.own.init(jax.random.key(0), spec))
        self.own = Classifier(variant.own, spec, own, held, batch)
        self.bits = variant.bits
        self.keep = variant.keep

    def quantiser(self, bits: int | None, sharpness: Scalar | None) -> Quantiser | None:
        """The quantiser of the own model, by default at the client's bits; None: full precision."""
        bits = self.bits if bits is None else bits
        if bits == FULL_PRECISION:
            return None
        layers = layers_to_quantise(self.own.layout, self.keep)
        if not layers:
            raise ParameterError(
                f"Personal: keep = {list(self.keep)} leaves no layer of {self.own.problem.model!r} "
                f"to quantise. Keep fewer layers, or set bits = {FULL_PRECISION}."
            )
        return Quantiser(layers, 2**bits, sharpness)


class _Classification(Problem):
    """What a personal problem and its variants share: seen from the hub, the common model."""

    common: Supervised

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh arrays of the common network."""
        return self.common.init(key, spec)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """The cross-entropy of each row, by the common network."""
        return self.common.losses(model, rows)

    def predict(self, model: Tree, x: Held) -> Array:
        """The scores of the common network."""
        return self.common.predict(model, x)

    def penalty(self, model: Tree) -> Array:
        """The smooth penalty."""
        return self.common.penalty(model)

    @property
    def link(self) -> str | None:
        """That of the common network, and of the clients' own."""
        return self.common.link

    def metrics(self) -> Mapping[str, Metric]:
        """Accuracy and loss."""
        return self.common.metrics()


@parametrised
class Variant(_Classification):
    """The problem of clients whose own models are alike in architecture and bits."""

    common: Supervised = param(instance_of(Supervised), "the common model's problem")
    own: Supervised = param(instance_of(Supervised), "the own model's problem")
    spec: Spec = param(anything, "the shape and type of the data")
    bits: int = param(bits_rule, "bits of a quantised weight")
    keep: tuple[int, ...] = param(_places, "weight tensors that stay at full precision")
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()

    def objective(
        self, layout: Layout, held: ClientRows, batch_size: int | None
    ) -> PersonalObjective:
        """The oracles of both models."""
        return PersonalObjective(self, layout, held, batch_size)


@parametrised
class Personal(_Classification):
    """Classify with a common network and, at each client, one of its own.

    If several own networks or bit-widths are given, clients get them in turn: with two, client 0
    has the first, client 1 the second, client 2 the first again. Methods of other families train
    only the common network.
    """

    kind: ClassVar[str] = "personal"
    also: ClassVar[tuple[str, ...]] = ("smooth",)

    model: Model = param(instance_of(Model), "the common network, which is sent")
    own: Model | tuple[Model, ...] | None = param(
        anything, "the clients' own networks; none: all like the common one", default=None
    )
    bits: int | tuple[int, ...] = param(
        _several_bits, "bits of a quantised weight of the own networks", default=FULL_PRECISION
    )
    keep: tuple[int, ...] = param(
        _places,
        "weight tensors that stay at full precision: 0 is the first layer's, -1 the last's",
        default=(0, -1),
    )
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()
    augment: Augmentation | None = augment_param()
    compute: str | None = compute_param()
    rematerialise: bool = rematerialise_param()

    def __post_init__(self) -> None:
        for model in self._own():
            if not isinstance(model, Model):
                raise ParameterError(
                    f"Personal: own must be a network or several; got {model!r}. "
                    f"Try own = fl.models.MLP()."
                )

    @property
    def common(self) -> Supervised:  # type: ignore[override]
        """The common model's problem."""
        return self._of(self.model)

    def check_network(self, spec: Spec, row: Rows) -> None:
        """Scores of classes, by the common network and the clients' own."""
        for model in (self.model, *self._own()):
            check_scores_of_classes("Personal", model, spec, row)

    def groups(self, clients: Any) -> list[tuple[Problem, Sequence[int] | None]]:
        """The clients with the same network and bits, each set with its variant."""
        if clients.classes == 0:
            raise numbers_for_classes("Personal", "Use Supervised for a regression.")
        if clients.classes == 1:
            raise DataError(
                "Personal needs labels of 2 classes or more; the data have 1. "
                "Add rows of another class."
            )
        spec = Spec(clients.train.x.shape[1:], clients.classes, "float32")
        own, bits = self._own(), self.bits if isinstance(self.bits, tuple) else (self.bits,)
        members: dict[tuple[Model, int], list[int]] = {}
        for i in range(len(clients)):
            members.setdefault((own[i % len(own)], bits[i % len(bits)]), []).append(i)
        alike = len(members) == 1
        return [
            (
                Variant(
                    self.common, self._of(model), spec, width, self.keep,
                    self.regulariser, self.weights,
                ),
                None if alike else ids,
            )
            for (model, width), ids in members.items()
        ]  # fmt: skip

    def _of(self, model: Model) -> Supervised:
        return Supervised(
            model,
            l2=self.l2,
            augment=self.augment,
            compute=self.compute,
            rematerialise=self.rematerialise,
        )

    def _own(self) -> tuple[Model, ...]:
        if self.own is None:
            return (self.model,)
        return self.own if isinstance(self.own, tuple) else (self.own,)


_PROMISE: type[PersonalOracle] = PersonalObjective  # what authors are promised, checked by mypy
