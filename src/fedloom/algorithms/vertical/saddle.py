"""What the extragradient methods on the saddle point problem share.

    min_{x, z} max_y  l(z, b) + sum_i r_i(x_i) + y'(sum_i A_i x_i - z)

The hub keeps the slack z and the price y, party i its share x_i of the model. Theory speaks of the
averages of the half-iterates, experiments show the last ones; `iterate` chooses.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical.scaling import Scale, given
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import one_of, param
from fedloom.types import Array


class Average(NamedTuple):
    """The mean of the half-iterates so far, and how many they are."""

    mean: Array
    terms: Array  # how many values it is of

    def add(self, value: Array) -> "Average":
        """The mean with one more value."""
        terms = self.terms + 1
        return Average(self.mean + (value - self.mean) / terms, terms)


class SaddleHub(NamedTuple):
    """The slack z and price y, the step, and the mean of the half-iterates of z where wanted."""

    slack: Array
    price: Array
    scale: Scale
    average: Average | tuple


class SaddleParty(NamedTuple):
    """A party's share x_i, its half-iterate, the step, and the mean of the latter where wanted."""

    share: Array
    half: Array
    scale: Scale
    average: Average | tuple


def iterate_param() -> Any:
    """The field for what a run leaves."""
    doc = "which iterates make the model: the last, or the mean of all half-iterates as in theory"
    return param(one_of("last", "average"), doc, default="last")


def first_hub(fed: VerticalFedView, step: float | None, iterate: str) -> SaddleHub:
    """Zero slack and price."""
    zeros = fed.loss.zeros()
    return SaddleHub(zeros, zeros, given(step, zeros.dtype), first_average(zeros, iterate))


def first_party(f: PartyOracle, key: Array, step: float | None, iterate: str) -> SaddleParty:
    """A zero share, behind a fresh network where the party has one."""
    share = f.start(key)
    return SaddleParty(share, share, given(step, share.dtype), first_average(share, iterate))


def first_average(like: Array, iterate: str) -> Average | tuple:
    """The mean of no half-iterates yet; nothing where the last iterate makes the model."""
    return () if iterate == "last" else Average(like, jnp.zeros((), like.dtype))


def add(average: Average | tuple, half: Array) -> Average | tuple:
    """Take a half-iterate into the mean, where one is kept."""
    return average.add(half) if isinstance(average, Average) else ()


def chosen(last: Array, average: Average | tuple) -> Array:
    """What a run leaves: the mean of the half-iterates where one is kept, else the last iterate."""
    return average.mean if isinstance(average, Average) else last
