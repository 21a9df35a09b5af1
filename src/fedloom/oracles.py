"""Types of what a method is given: a client's function `f`, and the hub's view `fed`.

`f` is known through its oracles, such as its gradient. Annotate with these types, and an editor
completes `f.` and `fed.`:

    kind of problem      f                   fed
    smooth               SmoothOracle        FedView
    saddle               SaddleOracle        SaddleFedView
    personal             PersonalOracle      FedView
    vertical             PartyOracle         VerticalFedView

They are protocols: any object with these members fits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from fedloom.layout import Layout
from fedloom.lazy import public
from fedloom.loss_oracles import ScaledLoss as ScaledLoss
from fedloom.loss_oracles import ScoreLoss as ScoreLoss
from fedloom.operators.blocks import Block
from fedloom.operators.quantisers import Quantiser
from fedloom.rows import Batch, ClientRows, Spec
from fedloom.types import Array, Held, Scalar

__all__ = ["AnyFed", "AnyOracle", "ClassifierOracle", "ClientOracle", "FedView", "PartyOracle"]
__all__ += ["PersonalOracle", "RowOracle", "SaddleFedView", "SaddleOracle", "ScaledLoss"]
__all__ += ["ScoreLoss", "SmoothOracle", "StatedProblem", "StatedSaddle", "VerticalFedView"]
if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)

# For the base of all methods; annotate a method of your own with a protocol below.
AnyOracle: TypeAlias = Any
AnyFed: TypeAlias = Any


class StatedProblem(Protocol):
    """The problem, as far as methods may use it."""

    @property
    def l2(self) -> Scalar:
        """The weight of the smooth penalty (l2 / 2) |w|^2."""

    @property
    def regulariser(self) -> Any:
        """The regulariser or constraint g; methods use it by `prox`."""


class StatedSaddle(StatedProblem, Protocol):
    """A saddle problem as stated."""

    @property
    def weak_convexity(self) -> Scalar:
        """The rho for which f(x, y) + (rho / 2) |x|^2 is convex in x."""

    @property
    def strong_concavity(self) -> Scalar:
        """The modulus with which every f(x, .) is strongly concave."""


@runtime_checkable
class ClientOracle(Protocol):
    """What the oracles of every kind have."""

    @property
    def problem(self) -> StatedProblem:
        """The problem as stated."""

    @property
    def layout(self) -> Layout:
        """How the client's vector folds into arrays."""

    def zeros(self) -> Array:
        """The zero vector of the model's size."""

    def prox(self, v: Array, step: Scalar) -> Array:
        """argmin_u  step g(u) + |u - v|^2 / 2, with g the regulariser; of a party, with r_i."""


@runtime_checkable
class RowOracle(ClientOracle, Protocol):
    """What the oracles of a client with rows of its own have."""

    @property
    def held(self) -> ClientRows:
        """The client's rows."""

    @property
    def batch_size(self) -> int | None:
        """The rows of a batch, which the run states; None: all of the client's."""

    @property
    def size(self) -> Array:
        """How many rows the client has."""

    @property
    def batches(self) -> Array | int:
        """The number of batches in one pass over the client's rows."""


@runtime_checkable
class SmoothOracle(RowOracle, Protocol):
    """A client's f_i(w): the mean loss over its rows, plus the smooth penalty."""

    def value(self, w: Array, key: Array) -> Array:
        """An unbiased estimate of f_i(w), on the batch that the key draws."""

    def grad(self, w: Array, key: Array) -> Array:
        """An unbiased estimate of the gradient of f_i at w, on the batch that the key draws."""

    def value_and_grad(self, w: Array, key: Array) -> tuple[Array, Array]:
        """Both, on the same batch."""

    def full_value(self, w: Array) -> Array:
        """f_i(w), over all of the client's rows."""

    def full_grad(self, w: Array) -> Array:
        """The gradient of f_i at w, over all of the client's rows."""


@runtime_checkable
class SaddleOracle(RowOracle, Protocol):
    """A client's f_i(x, y), which is minimised over x and maximised over y."""

    @property
    def problem(self) -> StatedSaddle:
        """The problem as stated."""

    def zeros_dual(self) -> Array:
        """The zero vector of the dual's size."""

    def value(self, x: Array, y: Array, key: Array) -> Array:
        """An unbiased estimate of f_i(x, y), on the batch that the key draws."""

    def grads(self, x: Array, y: Array, key: Array) -> tuple[Array, Array]:
        """Unbiased estimates of the gradients of f_i in x and in y, on the same batch."""

    def full_value(self, x: Array, y: Array) -> Array:
        """f_i(x, y), over all of the client's rows."""

    def full_grads(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The gradients of f_i in x and in y, over all of the client's rows."""

    def row_grads(self, x: Array, y: Array, places: Array) -> tuple[Array, Array]:
        """The gradients of the losses at single rows, one row of each result for each place."""

    def subgradient(self, x: Array) -> Array:
        """A subgradient of g at x, with 0 where |.| has its kink."""


@runtime_checkable
class ClassifierOracle(SmoothOracle, Protocol):
    """f_i(w) of a classifier p_w, which may learn from another's probabilities."""

    @property
    def problem(self) -> Any:
        """The problem as stated; `problem.model` is the network."""

    def init(self, key: Array) -> Array:
        """A fresh model, as a vector."""

    def draw(self, key: Array) -> Batch:
        """The batch on which `grad(w, key)` would be taken."""

    def grad_on(self, w: Array, batch: Batch) -> Array:
        """The gradient of the loss on a batch."""

    def outputs(self, w: Array, batch: Batch) -> Array:
        """Log p_w of all classes, a row of them for each row of a batch."""

    def learn(self, w: Array, batch: Batch, weight: Scalar, teacher: Array) -> Array:
        """The gradient of (1 - weight) f_i(w) + weight KL(teacher || p_w) on a batch."""

    def teach(self, w: Array, batch: Batch, students: Sequence[Array]) -> Array:
        """The gradient of the sum over students of KL(p_w || student) on a batch."""


@runtime_checkable
class PersonalOracle(ClassifierOracle, Protocol):
    """f_i(w) of the common model, and beside it that of the client's own."""

    @property
    def own(self) -> ClassifierOracle:
        """The oracles of the client's own model, on the same rows and batches."""

    def quantiser(self, bits: int | None, sharpness: Scalar | None) -> Quantiser | None:
        """Q_c of the own model, by default at the client's bits; None at full precision."""


@runtime_checkable
class PartyOracle(ClientOracle, Protocol):
    """A party's columns A_i as an operator, and its r_i(x) = (l2 / 2) |x|^2 + g(x)."""

    @property
    def block(self) -> Block:
        """A_i itself, for products with some of its rows or columns."""

    def start(self, key: Array) -> Array:
        """A fresh share x_i: zeros, behind a random network where there is one."""

    def forward(self, x: Array) -> Array:
        """The product A_i x; with a network, A_i(x)."""

    def adjoint(self, y: Array) -> Array:
        """The product A_i'y."""

    def pull(self, x: Array, y: Array) -> Array:
        """The gradient in x of y'A_i(x): the adjoint, or for a network its Jacobian's."""

    def grad_r(self, x: Array) -> Array:
        """The gradient of (l2 / 2) |x|^2."""

    def gram(self) -> Array:
        """The matrix A_i'A_i."""

    def largest_eigenvalue(self, key: Array) -> Array:
        """lam_max(A_i'A_i)."""

    def batch_rows(self, key: Array) -> Array | slice:
        """The rows of the batch that a key draws; the hub draws the same from the same key."""

    def on_rows(self, rows: Array | slice) -> "PartyOracle":
        """The oracles of some rows alone."""

    def rows_loss(self, fusion: Array, parts: Array, labels: Array) -> Array:
        """As `fed.rows_loss`, for a party that was told the labels of some rows."""


@runtime_checkable
class FedView(Protocol):
    """What the hub may know of the federation, and of min_w sum_i a_i f_i(w) + g(w)."""

    @property
    def problem(self) -> StatedProblem:
        """The problem as stated."""

    @property
    def n(self) -> int:
        """The number of clients."""

    @property
    def weights(self) -> Held:
        """The a_i, one for each client."""

    @property
    def layout(self) -> Layout:
        """How a model's vector folds into arrays; `layout.dtype` is the run's precision."""

    @property
    def spec(self) -> Spec:
        """The shape of a row, the number of classes, and the precision."""

    def init_model(self, key: Array) -> Array:
        """A fresh w, as a vector."""

    def prox(self, v: Array, step: Scalar) -> Array:
        """argmin_u  step g(u) + |u - v|^2 / 2."""

    def regularisation(self, w: Array) -> Array:
        """The value g(w)."""


@runtime_checkable
class SaddleFedView(FedView, Protocol):
    """What the hub of a saddle problem may know."""

    def init_dual(self, key: Array) -> Array:
        """A fresh y, as a vector."""


@runtime_checkable
class VerticalFedView(FedView, Protocol):
    """What the hub of a vertical federation, the label party, may know."""

    @property
    def labels(self) -> Held:
        """The labels b, as the loss takes them."""

    def zero_part(self) -> Array:
        """Zeros in the shape of one party's part A_i(x_i), for all rows."""

    @property
    def loss(self) -> ScoreLoss:
        """The loss l(., b) of the summed scores."""

    def init_fusion(self, key: Array) -> Array:
        """A fresh fusion model, as a vector; an empty one where the parties' parts are summed."""

    def fused(self, fusion: Array, parts: Array) -> Array:
        """The scores of rows, from the parties' parts (n, rows, ...) of them."""

    def batch_rows(self, key: Array) -> Array | slice:
        """The rows of the batch that a key draws; all of them where the run has no batches."""

    def rows_loss(self, fusion: Array, parts: Array, labels: Array) -> Array:
        """An estimate of l from some rows: of their labels, and the parts (n, rows, ...)."""
