"""Whether a network gives what a problem needs of it, known from shapes before anything runs.

Without this a network with an output too few would train to numbers that are not finite: in a
compiled program a label beyond the last output reads nothing.
"""

import functools
import math

import jax

from fedloom.errors import DataError, FedloomError
from fedloom.models.base import Model
from fedloom.rows import Rows, Spec

_KEPT = 8  # networks whose outputs are known; they stay in memory, some with large weights
_ROWS = 2  # that are looked at: with one, an axis of rows could not be told from others


def check_scores_of_classes(owner: str, network: Model, spec: Spec, row: Rows) -> None:
    """Raise DataError unless each label of a row gets a score for each class; more are left."""
    shape = _outputs(owner, network, spec, row)
    wanted = (*row.y.shape, spec.classes)
    if shape[:-1] != (_ROWS, *row.y.shape) or shape[-1] < spec.classes:  # no classes: any number
        raise DataError(
            f"{owner}: the network must have an output for each of the {spec.classes} classes, of "
            f"shape {wanted} for a row; {network!r} has {shape[1:]}. Let its last layer have "
            f"{spec.classes} outputs; in a network of your own, spec.classes says how many."
        )


def check_scores(owner: str, network: Model, spec: Spec, row: Rows, count: int) -> None:
    """Raise DataError unless a row gets so many scores."""
    shape = _outputs(owner, network, spec, row)
    if math.prod(shape) != _ROWS * count:
        scores = "one output" if count == 1 else f"{count} outputs"
        raise DataError(
            f"{owner}: the network must have {scores} for a row; {network!r} has outputs of shape "
            f"{shape[1:]}. Let its last layer have {scores}."
        )


def check_takes(owner: str, network: Model, spec: Spec, row: Rows) -> None:
    """Raise DataError if the network fails on rows of this shape."""
    _outputs(owner, network, spec, row)


@functools.lru_cache(maxsize=_KEPT)
def _outputs_of(network: Model, spec: Spec, features: jax.ShapeDtypeStruct) -> tuple[int, ...]:
    """The shape of the outputs for some rows; it takes a while for a large network."""

    def outputs(x: jax.Array) -> jax.Array:
        return network.apply(network.init(jax.random.key(0), spec), x)

    return jax.eval_shape(outputs, features).shape


def _outputs(owner: str, network: Model, spec: Spec, row: Rows) -> tuple[int, ...]:
    _check_hashable(owner, network)
    features = jax.ShapeDtypeStruct((_ROWS, *row.x.shape), row.x.dtype)
    try:
        return _outputs_of(network, spec, features)
    except FedloomError:
        raise  # a network that says itself what rows it takes
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{owner}: the network must take rows of shape {row.x.shape} and type {row.x.dtype}; "
            f"{network!r} fails on them: {_first_line(error)} Give the data that "
            f"shape, or make the network for spec.features."
        ) from error


def _check_hashable(owner: str, network: Model) -> None:
    """Raise DataError for a network that no program can be compiled for and found again by."""
    try:
        hash(network)
    except TypeError as error:
        raise DataError(
            f"{owner}: the network must be hashable, as programs are compiled for it once; "
            f"{type(network).__name__} is not: {_first_line(error)} Put @parametrised or "
            f"@dataclass(frozen=True) before its class, and let its fields be numbers, texts and "
            f"tuples."
        ) from error


def _first_line(error: Exception) -> str:
    told = str(error).strip().splitlines()
    return f"{told[0].rstrip('.')}." if told else f"{type(error).__name__}."
