"""Local steps along directions that are averaged like the points: what momentum methods share."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from fedloom.algorithms.minimax.point import Point, first_point, settled
from fedloom.cohorts import everyone
from fedloom.local import repeat
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import Rule, fraction
from fedloom.protocol import Round, ask
from fedloom.types import Array, Nothing, Scalar

share = Rule(lambda v: fraction.holds(v) and v > 0, "a number above 0 and up to 1", 0.5)


class Moving(NamedTuple):
    """A point, and the directions in which both blocks move."""

    point: Point
    direction: Point


class Mover(Protocol):
    """What these methods share: how g enters, and two methods of a client."""

    @property
    def regularise(self) -> str:
        """How g enters."""

    def look(
        self, client: Nothing, point: Point, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Point]:
        """The first direction of a client."""

    def train(
        self, client: Nothing, start: Moving, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, Moving]:
        """How local steps change point and direction."""


def init_hub(self: Mover, fed: SaddleFedView, key: Array, /) -> Moving:
    """A fresh point; the opening finds the first directions."""
    point = first_point(fed, key)
    return Moving(point, jax.tree.map(jnp.zeros_like, point))


def opening(self: Mover, hub: Moving, fed: SaddleFedView, key: Array, /) -> Round:
    """The mean of the first gradients."""
    replies = yield ask(self.look, hub.point, to=everyone(fed.n))
    return Moving(hub.point, replies.estimate(fed.weights)), ()


def move_all(method: Mover, hub: Moving, fed: SaddleFedView, elapsed: Scalar) -> Round:
    """Local steps of everyone, then the mean of points and directions; a prox of step `elapsed`."""
    changes = yield ask(method.train, hub, to=everyone(fed.n))
    point, direction = jax.tree.map(jnp.add, hub, changes.estimate(fed.weights))
    x = settled(fed, point.x, changes.cohort.any() * elapsed, method.regularise)
    return Moving(Point(x, point.y), direction), ()


def change(
    step: Callable[[Moving, Array], Moving], start: Moving, key: Array, steps: int
) -> Moving:
    """How far local steps move the point and the directions."""
    return jax.tree.map(jnp.subtract, repeat(step, start, key, steps), start)


def model(self: Mover, hub: Moving, fed: SaddleFedView, /) -> Array:
    """The primal block."""
    return hub.point.x
