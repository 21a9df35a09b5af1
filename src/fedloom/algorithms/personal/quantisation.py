"""Steps on a client's own model that is quantised: what the methods of QuPeD's paper share.

Ozkara, Singh, Data, Diggavi. NeurIPS 2021: what Algorithms 1 to 3 have in common. For a smooth h

    min_{x,c}  h(x) + h(Q_c(x)) + lambda R(x, c)

    x <- prox_{lr lambda R(., c)}( x - lr [ h'(x) + J_x' h'(Q_c(x)) ] )
    c <- prox_{centre_lr lambda R(x, .)}( c - centre_lr J_c' h'(Q_c(x)) )          at the new x

with J the Jacobians of the quantiser. For the hard one, J_x is the identity where weights are not
quantised and 0 where they are; J_c sums over cells. At full precision all that is left is
x <- x - lr h'(x).

With training = "straight-through" the quantised model alone is trained, and J_x counts as the
identity (the straight-through estimator; Bengio, Leonard, Courville 2013, and BinaryConnect):

    x <- x - lr h'(Q_c(x)),    c <- c - centre_lr J_c' h'(Q_c(x))                  at the new x

With training = "lsq" centres are multiples of one learned step s a layer (Esser, McKinstry,
Bablani, Appuswamy, Modha: Learned step size quantization. ICLR 2020), from 2 bits on:

    Q_s(x) = s round(clip(x / s, -q, p)),    q = 2^(bits-1),  p = q - 1
    x <- x - lr h'(Q_s(x)) where -q < x / s < p,   others stay
    s <- s - centre_lr / sqrt(N p) sum_j d_j h'(Q_s(x))_j                          at the new x
         d = round(x / s) - x / s inside,  -q or p beyond;    s begins at 2 mean|x| / sqrt(p)

for N weights. Neither has a pull lambda. Both are options of every method that quantises.

The schedule runs by the client's own passes over its rows, t = 1, 2, ...: lambda = pull * t *
pull_growth^t, and step sizes of weights shrink by `decay` a pass. After `freeze_after` passes the
model is quantised for good: weights keep their cells, and only what is not quantised, and the
centres, are trained on.

Differs from the paper: the sign of the centres' proximal map, which the paper and the released
program have the wrong way round (`centre_sign = "released"` takes theirs). The program clips
weights to [-1, 1] and centres' gradients to [-10, 10], which the paper does not mention:
weight_bound = 1 and centre_bound = 10 do that. One bit picks the nearest centre, not the one of the
same sign. LSQ's paper quantises activations too, and steps on s and x at once, with one step size:
set centre_lr = lr for that. Here s moves at the new x, as centres do, and is kept above 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.algorithms.personal.personal_models import passes
from fedloom.errors import ParameterError
from fedloom.operators.quantisers import Quantiser, ends
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

_LEAST_STEP = 1e-8

Slope = Callable[[Array], Array]  # the gradient of h at a model


@parametrised
class Quantisation:
    """How own models are quantised."""

    bits: int | None = param(
        bits_rule.or_none("the problem's bits for each client"),
        "bits of a quantised weight, for every client",
        default=None,
    )
    training: str = param(
        one_of("proximal", "straight-through", "lsq"),
        "by proximal maps as in QuPeD, or through Q with learned centres or a learned step",
        default="proximal",
    )
    pull: float = param(
        at_least_zero,
        "growth of lambda, the weight of the distance to the centres, in each pass over the rows",
        default=5e-6,
    )
    pull_growth: float = param(
        positive, "factor by which lambda also grows in each pass", default=1.0
    )
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
    weight_bound: float | None = param(
        positive.or_none("none"), "largest size of a quantised weight", default=None
    )
    centre_bound: float | None = param(
        positive.or_none("none"), "largest size of a centre's gradient", default=None
    )
    freeze_after: int | None = param(
        at_least(0).or_none("never"), "passes after which weights keep their cells", default=None
    )
    tuning_centre_lr: float = param(
        at_least_zero, "step size of the centres from then on", default=1e-6
    )

    def __post_init__(self) -> None:
        if self.training != "proximal" and self.sharpness is not None:
            raise ParameterError(
                f"Quantisation: sharpness must be none where training is {self.training!r}, which "
                f"has no soft quantiser; got {self.sharpness!r}. Leave it out."
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
    quantiser = None if quantise is None else f.quantiser(quantise.bits, quantise.sharpness)
    if quantise is None or quantiser is None:
        return None
    if quantise.training == "lsq" and quantiser.levels == 2:
        raise ParameterError(
            "Quantisation: bits must be at least 2 where training is 'lsq': of 1 bit there is no "
            "step above 0. Take training = 'straight-through', or more bits."
        )
    return quantiser._replace(training=quantise.training)


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
    """What the terms of a personal objective see: x, and Q_c(x) where there is a quantiser.

    Where training goes through the quantiser, Q_c(x) alone.
    """
    quantiser = quantiser_of(quantise, f)
    x, c, _ = point
    if quantiser is None:
        return [x]
    seen = quantiser.apply(x, c)
    return [x, seen] if quantiser.training == "proximal" else [seen]


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
    """h'(x) + J_x' h'(Q_c(x)); without the first where training goes through the quantiser."""
    quantiser = quantiser_of(quantise, f)
    if quantiser is None:
        return slope(point.model)
    seen, back = jax.vjp(quantiser.apply, point.model, point.centres)
    through = back(slope(seen))[0]
    return slope(point.model) + through if quantiser.training == "proximal" else through


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
    if quantise.training != "proximal":
        pull = jnp.zeros_like(pull)
    frozen = _frozen(quantise, f, point)
    pulled = quantiser.prox_weights(moved, c, lr * pull)
    if quantise.weight_bound is not None:
        inside = jnp.clip(pulled, -quantise.weight_bound, quantise.weight_bound)
        pulled = quantiser.put(pulled, inside)
    x = jnp.where(frozen, quantiser.put(moved, x), pulled)

    seen, back = jax.vjp(quantiser.apply, x, c)
    centre_lr = jnp.where(frozen, quantise.tuning_centre_lr, quantise.centre_lr)
    uphill = back(slope(seen))[1]
    if quantise.centre_bound is not None:
        uphill = jnp.clip(uphill, -quantise.centre_bound, quantise.centre_bound)
    if quantise.training == "lsq":
        low, high = ends(quantiser.levels)
        # Before: of c, only p s has part in Q_s. Frozen weights are multiples of s, and go with it.
        cells = jax.vjp(quantiser.hard, x, c)[1](slope(seen))[1]
        held = cells @ jnp.arange(low, high + 1, dtype=c.dtype)
        slopes = jnp.where(frozen, held, high * uphill[:, -1])
        settled = _other_steps(quantiser, c, slopes, centre_lr)
    else:
        settled = quantiser.prox_centres(
            c - centre_lr * uphill,
            c,
            x,
            jnp.where(frozen, 0, centre_lr * pull),
            sign=quantise.sign,
            per_cell=quantise.per_cell,
        )
    return QuantisedModel(jnp.where(frozen, quantiser.follow(x, c, settled), x), settled, steps + 1)


def _other_steps(quantiser: Quantiser, c: Array, slopes: Array, lr: Array) -> Array:
    """The centres of LSQ after a gradient step on the step of each layer."""
    _, high = ends(quantiser.levels)
    sizes = jnp.asarray([stop - start for start, stop in quantiser.layers], c.dtype)
    steps = quantiser.steps(c) - lr * slopes / jnp.sqrt(sizes * high)
    return quantiser.multiples(jnp.maximum(steps, _LEAST_STEP))


def _frozen(quantise: Quantisation, f: PersonalOracle, point: QuantisedModel) -> Array | bool:
    return quantise.freeze_after is not None and passes(point.steps, f) >= quantise.freeze_after
