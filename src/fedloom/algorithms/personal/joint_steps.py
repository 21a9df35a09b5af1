"""What QuPeD and QuPeL share: a round's steps on the own model, with the common one beside it.

    K times, each on one batch:
        x, c <- a step on the own model and its centres, by its slope at w     (quantisation.py)
        w    <- w - common_lr lp (the slope of the common model at the new x and Q_c(x))

with both step sizes shrinking by `decay` a pass over the client's rows.
"""

from collections.abc import Callable
from typing import Any

from fedloom.algorithms.personal.personal_models import passes
from fedloom.algorithms.personal.quantisation import (
    Quantisation,
    QuantisedModel,
    Slope,
    descend,
    models,
)
from fedloom.local import repeat
from fedloom.oracles import PersonalOracle
from fedloom.types import Array, Scalar

Batch = Any
OwnSlope = Callable[[Array, Batch], Slope]  # of w on a batch: the gradient of h by the own model
CommonSlope = Callable[[Array, list[Array], Batch], Array]  # of w, at x and Q_c(x), on a batch


def joint_steps(
    own: QuantisedModel,
    common: Array,
    f: PersonalOracle,
    key: Array,
    *,
    steps: Array | int,
    own_slope: OwnSlope,
    common_slope: CommonSlope,
    quantise: Quantisation | None,
    lr: Scalar,
    common_lr: Scalar,
    coupling: Scalar,
    decay: Scalar,
) -> tuple[QuantisedModel, Array]:
    """The own and the common model after so many steps; `coupling` is the lp above."""

    def step(state: tuple[QuantisedModel, Array], key: Array) -> tuple[QuantisedModel, Array]:
        own, w = state
        batch = f.draw(key)
        shrink = decay ** passes(own.steps, f)
        own = descend(quantise, f, own, own_slope(w, batch), lr * shrink)
        slope = common_slope(w, models(quantise, f, own), batch)
        return own, w - common_lr * shrink * coupling * slope

    return repeat(step, (own, common), key, steps)
