"""What the methods for saddle problems share: points, simultaneous steps, and how g enters."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import bernoulli, uniform
from fedloom.errors import ParameterError
from fedloom.local import repeat
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import Rule, check, one_of, param
from fedloom.protocol import Cohort
from fedloom.types import Array, Scalar


class PrimalDual(NamedTuple):
    """A primal and a dual vector, or a change of both."""

    x: Array
    y: Array


def minus(one: PrimalDual, other: PrimalDual) -> PrimalDual:
    """How the second point must change to become the first."""
    return jax.tree.map(jnp.subtract, one, other)


def plus(point: PrimalDual, change: PrimalDual, scale: Array | float = 1.0) -> PrimalDual:
    """The point moved by a multiple of a change."""
    return jax.tree.map(lambda p, c: p + scale * c, point, change)


def first_point(fed: SaddleFedView, key: Array) -> PrimalDual:
    """A fresh model and a fresh dual."""
    return PrimalDual(fed.init_model(key), fed.init_dual(key))


def regularise_param() -> Any:
    """The field for how the regulariser g enters a method whose paper has none."""
    doc = "how g enters: a proximal map at the hub after each round, or subgradients in local steps"
    return param(one_of("prox", "subgradient"), doc, default="prox")


def slopes(
    f: SaddleOracle, point: PrimalDual, key: Array, regularise: str, frozen: Array | None = None
) -> PrimalDual:
    """Stochastic gradients at a point; that in y may be taken at a frozen x, on the same batch."""
    gx, gy = f.grads(*point, key)
    if frozen is not None:
        gy = f.grads(frozen, point.y, key)[1]
    if regularise == "subgradient":
        gx = gx + f.subgradient(point.x)
    return PrimalDual(gx, gy)


def settled(fed: SaddleFedView, x: Array, step: Scalar, regularise: str) -> Array:
    """The model after the hub's proximal map, with the length of all local steps of the round."""
    return fed.prox(x, step) if regularise == "prox" else x


def descend_ascend(
    f: SaddleOracle,
    start: PrimalDual,
    key: Array,
    *,
    lr: Scalar,
    dual_lr: Scalar,
    steps: Array | int,
    regularise: str,
    frozen: Array | None = None,
) -> PrimalDual:
    """Simultaneous steps, down in x and up in y, both gradients at the old point."""

    def step(point: PrimalDual, key: Array) -> PrimalDual:
        slope = slopes(f, point, key, regularise, frozen)
        return PrimalDual(point.x - lr * slope.x, point.y + dual_lr * slope.y)

    return repeat(step, start, key, steps)


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


_attendance = Rule(
    lambda v: _is_probability(v) or (isinstance(v, tuple) and all(map(_is_probability, v))),
    "a number above 0 and up to 1, or a list of them, one for each client",
    0.5,
)


Attendance = float | tuple[float, ...] | None  # a probability, or one for each client


def attendance_param() -> Any:
    """The field for clients that take part at random, each with a probability of its own."""
    doc = "probability that a client takes part in a round, each independently"
    return param(_attendance.or_none("as cohort says"), doc, default=None)


def check_participation(owner: str, cohort: int | None, attendance: Attendance) -> None:
    """Refuse a cohort together with attendance, and probabilities outside (0, 1]."""
    if isinstance(attendance, tuple) and all(isinstance(p, int | float) for p in attendance):
        check(owner, "attendance", attendance, _attendance)
    if cohort is not None and attendance is not None:
        raise ParameterError(
            f"{owner}: cohort or attendance must be none; got cohort = {cohort!r} and attendance = "
            f"{attendance!r}. Leave one of them out."
        )


def taking_part(key: Array, n: int, cohort: int | None, attendance: Attendance) -> Cohort:
    """Who takes part: each client by its own coin, or a cohort of fixed size."""
    if attendance is None:
        return uniform(key, n, cohort)
    if isinstance(attendance, tuple) and len(attendance) != n:
        raise ParameterError(
            f"attendance must be one number, or one for each of the {n} clients; got "
            f"{len(attendance)}. Give {n}, or one for all."
        )
    return bernoulli(key, jnp.asarray(attendance), n)
