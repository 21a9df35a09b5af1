"""Local steps along directions that are averaged like points, which momentum methods share."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.algorithms.minimax.point import PrimalDual, first_point
from fedloom.local import repeat
from fedloom.oracles import SaddleFedView
from fedloom.types import Array


class Moving(NamedTuple):
    """A point, and the directions in which both blocks move."""

    point: PrimalDual
    direction: PrimalDual


def at_rest(fed: SaddleFedView, key: Array) -> Moving:
    """A fresh point with zero directions."""
    point = first_point(fed, key)
    return Moving(point, jax.tree.map(jnp.zeros_like, point))


def added(now: Moving, change: Moving) -> Moving:
    """The point and the directions after a change of both."""
    return jax.tree.map(jnp.add, now, change)


def change(
    step: Callable[[Moving, Array], Moving], start: Moving, key: Array, steps: int
) -> Moving:
    """How far local steps move the point and the directions."""
    return jax.tree.map(jnp.subtract, repeat(step, start, key, steps), start)
