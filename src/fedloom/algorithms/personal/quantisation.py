"""Steps on a client's own model that is quantised: what the methods of QuPeD's paper share.

Ozkara, Singh, Data, Diggavi. NeurIPS 2021: what Algorithms 1 to 3 have in common. For a smooth h

    min_{x,c}  h(x) + h(Q_c(x)) + lambda R(x, c)

    x <- prox_{lr lambda R(., c)}( x - lr [ h'(x) + J_x' h'(Q_c(x)) ] )
    c <- prox_{centre_lr lambda R(x, .)}( c - centre_lr J_c' h'(Q_c(x)) )          at the new x

with J the Jacobians of the quantiser. For the hard one, J_x is the identity where weights are not
quantised and 0 where they are; J_c sums over cells. At full precision all that is left is
x <- x - lr h'(x).

The schedule runs by the client's own passes over its rows, t = 1, 2, ...: lambda = pull * t *
pull_growth^t, and step sizes shrink by `decay` a pass. After `freeze_after` passes the model is
quantised for good: weights keep their cells, and only what is not quantised, and the centres, are
trained on.

Differs from the paper: the sign of the centres' proximal map, which the print and the released
program have the wrong way round (`centre_sign = "released"` has it so). Weights are not clipped to
[-1, 1] nor centres' gradients to [-10, 10], as the program does, and one bit picks the nearest
centre, not the one of the same sign.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.algorithms.personal.own_models import passes
from fedloom.operators.quantisers import Quantiser
from fedloom.oracles import PersonalOracle
from fedloom.parameters import (
    at_least,
    at_least_zero,
    flag,
    instance_of,
    one_of,
    param,
    parametrised,
    positive,
)
from fedloom.problems.personal import bits_rule
from fedloom.types import Array

Slope = Callable[[Array], Array]  # the gradient of h at a model


@parametrised
class Quantisation:
    """How own models are quantised."""

    bits: int | None = param(
        bits_rule.or_none("what the problem gives each client"),
        "bits of a quantised weight, for every client",
        default=None,
    )
    pull: float = param(
        at_least_zero, "growth of lambda, the pull to the centres, a pass", default=5e-6
    )
    pull_growth: float = param(positive, "factor of lambda a pass", default=1.0)
    centre_lr: float = param(at_least_zero, "step size of the centres", default=1e-4)
    sharpness: float | None = param(
        positive.or_none("the hard quantiser"), "slope of the soft quantiser", default=None
    )
    centre_sign: str = param(
        one_of("corrected", "released"),
        "the sign of the centres' proximal map",
        default="corrected",
    )
    per_cell: bool = param(
        flag, "whether the centres' proximal map divides by the size of a cell", default=False
    )
    freeze_after: int | None = param(
        at_least(0).or_none("never"), "passes after which weights keep their cells", default=None
    )
    tuning_centre_lr: float = param(
        at_least_zero, "step size of the centres from then on", default=1e-6
    )

    @property
    def sign(self) -> float:
        """+1, or -1 as released."""
        return 1.0 if self.centre_sign == "corrected" else -1.0


class QuantisedModel(NamedTuple):
    """A client's own model, its centres for each quantised layer, and the steps it has taken."""

    model: Array
    centres: Array  # (layers, levels); (0, 0) at full precision
    steps: Array


def quantise_param(default: Quantisation | None = None) -> Any:
    """The field for the quantisation."""
    rule = instance_of(Quantisation).or_none("full precision")
    return param(rule, "how own models are quantised", default=default)


def quantiser_of(quantise: Quantisation | None, f: PersonalOracle) -> Quantiser | None:
    """A client's quantiser; None: full precision."""
    return None if quantise is None else f.quantiser(quantise.bits, quantise.sharpness)


def start(quantise: Quantisation | None, f: PersonalOracle, model: Array) -> QuantisedModel:
    """The first point: a model, and centres that suit it."""
    quantiser = quantiser_of(quantise, f)
    centres = (
        jnp.zeros((0, 0), model.dtype) if quantiser is None else quantiser.first_centres(model)
    )
    return QuantisedModel(model, centres, jnp.zeros((), jnp.int32))


def quantised(quantise: Quantisation | None, f: PersonalOracle, point: QuantisedModel) -> Array:
    """The model that the client deploys."""
    quantiser = quantiser_of(quantise, f)
    return point.model if quantiser is None else quantiser.hard(point.model, point.centres)


def models(quantise: Quantisation | None, f: PersonalOracle, point: QuantisedModel) -> list[Array]:
    """x, and Q_c(x) where there is a quantiser: what the terms of a personal objective see."""
    quantiser = quantiser_of(quantise, f)
    x, c, _ = point
    return [x] if quantiser is None else [x, quantiser.apply(x, c)]


def descend(
    quantise: Quantisation | None,
    f: PersonalOracle,
    point: QuantisedModel,
    slope: Slope,
    lr: Array,
) -> QuantisedModel:
    """One gradient step on the model, then one on its centres."""
    point = freeze(quantise, f, point)
    return move(quantise, f, point, slope, gradient(quantise, f, point, slope), lr)


def freeze(
    quantise: Quantisation | None, f: PersonalOracle, point: QuantisedModel
) -> QuantisedModel:
    """The point with its weights at their centres, once it is time for that."""
    quantiser = quantiser_of(quantise, f)
    if quantise is None or quantiser is None or quantise.freeze_after is None:
        return point
    settled = quantiser.hard(point.model, point.centres)
    return point._replace(model=jnp.where(_frozen(quantise, f, point), settled, point.model))


def gradient(
    quantise: Quantisation | None, f: PersonalOracle, point: QuantisedModel, slope: Slope
) -> Array:
    """h'(x) + J_x' h'(Q_c(x))."""
    quantiser = quantiser_of(quantise, f)
    if quantiser is None:
        return slope(point.model)
    seen, back = jax.vjp(quantiser.apply, point.model, point.centres)
    return slope(point.model) + back(slope(seen))[0]


def move(
    quantise: Quantisation | None,
    f: PersonalOracle,
    point: QuantisedModel,
    slope: Slope,
    direction: Array,
    lr: Array,
) -> QuantisedModel:
    """A step of the model against a direction, and then the step of the centres."""
    quantiser = quantiser_of(quantise, f)
    x, c, steps = point
    moved = x - lr * direction
    if quantise is None or quantiser is None:
        return QuantisedModel(moved, c, steps + 1)
    time = passes(point.steps, f) + 1
    pull = quantise.pull * time * quantise.pull_growth**time
    frozen = _frozen(quantise, f, point)
    x = jnp.where(frozen, quantiser.put(moved, x), quantiser.prox_weights(moved, c, lr * pull))

    seen, back = jax.vjp(quantiser.apply, x, c)
    centre_lr = jnp.where(frozen, quantise.tuning_centre_lr, quantise.centre_lr)
    settled = quantiser.prox_centres(
        c - centre_lr * back(slope(seen))[1],
        c,
        x,
        jnp.where(frozen, 0, centre_lr * pull),
        sign=quantise.sign,
        per_cell=quantise.per_cell,
    )
    return QuantisedModel(jnp.where(frozen, quantiser.follow(x, c, settled), x), settled, steps + 1)


def _frozen(quantise: Quantisation, f: PersonalOracle, point: QuantisedModel) -> Array | bool:
    return quantise.freeze_after is not None and passes(point.steps, f) >= quantise.freeze_after
