"""What the extragradient methods on the saddle point problem share.

    min_{x, z} max_y  l(z, b) + sum_i r_i(x_i) + y'(sum_i A_i x_i - z)

The hub keeps the slack z and the price y, party i its share x_i of the model. Theory speaks of the
averages of the half-iterates, experiments show the last ones; `iterate` chooses.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical.scaling import Scale, Scaled, given
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import one_of, param
from fedloom.types import Array, Tree


class Average(NamedTuple):
    """A running mean."""

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


def first_hub(method: Scaled, fed: VerticalFedView) -> SaddleHub:
    """All zero."""
    zeros = fed.loss.zeros()
    return SaddleHub(zeros, zeros, given(method, zeros.dtype), _average(method, zeros))


def first_party(method: Scaled, f: PartyOracle, key: Array) -> SaddleParty:
    """A fresh share."""
    share = f.start(key)
    return SaddleParty(share, share, given(method, share.dtype), _average(method, share))


def add(average: Average | tuple, value: Array) -> Average | tuple:
    """Take a half-iterate into the mean, where one is kept."""
    return average.add(value) if isinstance(average, Average) else ()


def _average(method: Scaled, like: Array) -> Average | tuple:
    if method.iterate == "last":
        return ()
    return Average(like, jnp.zeros((), like.dtype))


class Saddle(Scaled):
    """The base of methods that keep slack and price at the hub and a share at each party."""

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> Tree:
        """Zeros."""
        return first_hub(self, fed)

    def init_client(self, f: PartyOracle, key: Array, /) -> SaddleParty:
        """Zeros, behind a fresh network where the party has one."""
        return first_party(self, f, key)

    def model(self, hub: Tree, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        slack = hub.average.mean if isinstance(hub.average, Average) else hub.slack
        return slack / hub.scale.beta

    def deployed(self, model: Array, client: SaddleParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.average.mean if isinstance(client.average, Average) else client.share
