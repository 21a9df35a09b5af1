"""A model in two parts: arrays that all clients share, and arrays that each client has of its own.

FedPer, FedRep and FedBN send and average the shared ones only; the others never leave their client.
Which are own is said by the names of arrays, such as "dense.2.weights", or "bn1.bias" of a network
that came from PyTorch.
"""

import itertools
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.errors import ParameterError
from fedloom.layout import Layout
from fedloom.parameters import param
from fedloom.rules import pattern
from fedloom.types import Array


class PersonalArrays(NamedTuple):
    """The client's own arrays, as one vector."""

    own: Array


class Parts(NamedTuple):
    """Where the shared and the own arrays lie in a model's vector: (start, stop) of stretches."""

    shared: tuple[tuple[int, int], ...]
    own: tuple[tuple[int, int], ...]

    def shared_of(self, model: Array) -> Array:
        """The shared arrays of a model, as one vector."""
        return jnp.concatenate([model[start:stop] for start, stop in self.shared])

    def personal_of(self, model: Array) -> Array:
        """The own arrays of a model, as one vector."""
        return jnp.concatenate([model[start:stop] for start, stop in self.own])

    def join(self, shared: Array, own: Array) -> Array:
        """The whole model."""
        model = jnp.zeros(shared.size + own.size, shared.dtype)
        for part, stretches in ((shared, self.shared), (own, self.own)):
            place = 0
            for start, stop in stretches:
                piece = part[place : place + stop - start]
                model = jax.lax.dynamic_update_slice(model, piece, (start,))
                place += stop - start
        return model


def personal_param(none: str) -> Any:
    """The field for the names of own arrays; `none` says which these are where nothing is given."""
    return param(
        pattern(r"^2\.").or_none(none),
        "regular expression for the names of the arrays that each client has of its own",
        default=None,
    )


def parts_by(method: str, layout: Layout, own: str) -> Parts:
    """The parts of a model by a regular expression for the names of own arrays."""
    names = layout.full_names
    matched = [name for name in names if re.search(own, name)]
    if len(matched) in (0, len(names)):
        fault = "all arrays of the network, with none left to share" if matched else "no array"
        raise refusal(method, names, f"own = {own!r} matches {fault}")
    return parts_of(layout, matched)


def parts_of(layout: Layout, own: Collection[str]) -> Parts:
    """The parts of a model, of which these arrays are own."""
    ends = itertools.accumulate((math.prod(shape) for shape in layout.shapes), initial=0)
    places = dict(zip(layout.full_names, itertools.pairwise(ends), strict=True))
    return Parts(
        tuple(place for name, place in places.items() if name not in own),
        tuple(place for name, place in places.items() if name in own),
    )


def head_of(method: str, layout: Layout) -> Parts:
    """The parts of one of fedloom's own networks, of which the last layer is own.

    Names of other networks do not say which layer is the last.
    """
    names = layout.full_names
    layers = {name.rpartition(".")[0] for name in names}
    numbers = [int(layer) for layer in layers if layer.isdigit()]
    dense = [int(layer[6:]) for layer in layers if re.fullmatch(r"dense\.\d+", layer)]
    if "output" in layers:
        last = "output"
    elif len(numbers) == len(layers):
        last = str(max(numbers))
    elif dense and all(re.fullmatch(r"(conv|dense)\.\d+", layer) for layer in layers):
        last = f"dense.{max(dense)}"
    else:
        raise refusal(method, names, "own must name the last layer of this network")
    return parts_by(method, layout, rf"^{re.escape(last)}\.")


def refusal(method: str, names: Collection[str], fault: str) -> ParameterError:
    """The error where arrays cannot be told apart, with their names."""
    error = ParameterError(
        f"{method}: {fault}. The arrays of the network are {', '.join(names)}. Set own to a "
        f"regular expression that is found in the names of those which clients have of their own."
    )
    error.parameter = "own"
    return error
