"""Quantisers: numbers replaced by the nearest of a few centres, and what training with them needs.

    Q_c(x)_j  = the centre nearest to x_j
    Q~_c(x)_j = c_1 + sum_k (c_k - c_{k-1}) sigmoid(P (x_j - (c_k + c_{k-1}) / 2)),  P -> inf: Q_c
    R(x, c)   = (1/2) sum_j min_k |x_j - c_k|

Centres are sorted. The nearest one is found by a search among the midpoints, so there is never a
matrix of distances. The first functions work on one layer; `Quantiser` maps them over the layers of
a model that is one vector.
"""

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.errors import ParameterError
from fedloom.layout import Layout
from fedloom.lazy import public
from fedloom.operators.proximal import soft_threshold
from fedloom.types import Array, Scalar

__all__ = ["FULL_PRECISION", "Quantiser", "cell_sums", "cells", "distance", "first_centres", "hard"]
__all__ += ["ends", "even", "layers_to_quantise", "prox_centres", "prox_weights", "soft"]
__all__ += ["straight_through"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


FULL_PRECISION = 32  # bits of a weight that is not quantised
_SIZE_OF_ZEROS = 0.01  # of weights that begin at zero, as LoRA's do: LSQ's step must not
_FEW = 16  # up to so many centres, a comparison with each beats a search and a scatter


def cells(x: Array, centres: Array) -> Array:
    """The number of the centre nearest to each entry; of two equally near, the lower one.

    Args:
        x: The numbers.
        centres: Sorted, (levels,).
    """
    method = "compare_all" if len(centres) <= _FEW else "scan_unrolled"
    return jnp.searchsorted((centres[1:] + centres[:-1]) / 2, x, method=method)


def cell_sums(values: Array, cell: Array, levels: int) -> Array:
    """The sum of the values of each cell, (levels,).

    Args:
        values: The numbers to add.
        cell: The cell of each, from `cells`.
        levels: How many cells there are.
    """
    if levels > _FEW:
        return jax.ops.segment_sum(values, cell, levels)
    return jnp.stack([jnp.where(cell == k, values, 0).sum() for k in range(levels)])


@jax.custom_vjp
def hard(x: Array, centres: Array) -> Array:
    """Q_c(x): each number replaced by its nearest centre.

    The derivative by x is 0; by a centre it is 1 at the numbers of its cell.
    """
    return centres[cells(x, centres)]


def _hard_forward(x: Array, centres: Array) -> tuple[Array, tuple[Array, Array]]:
    cell = cells(x, centres)
    return centres[cell], (cell, centres)


def _hard_backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    cell, centres = saved
    return jnp.zeros_like(slope), cell_sums(slope, cell, len(centres))


hard.defvjp(_hard_forward, _hard_backward)


def soft(x: Array, centres: Array, sharpness: Scalar) -> Array:
    """Q~_c(x): a smooth form of `hard`, with slope P = `sharpness`."""
    out = jnp.broadcast_to(centres[0], x.shape)
    for low, high in itertools.pairwise(centres):
        out = out + (high - low) * jax.nn.sigmoid(sharpness * (x - (low + high) / 2))
    return out


def straight_through(x: Array, centres: Array) -> Array:
    """Q_c(x), whose derivative by x is taken to be 1: the straight-through estimator."""
    return hard(x, centres) + (x - jax.lax.stop_gradient(x))


def ends(levels: int) -> tuple[int, int]:
    """The lowest and the highest of so many whole numbers, one more of them below 0 than above."""
    return -(levels // 2), levels - levels // 2 - 1


def even(x: Array, step: Array, levels: int) -> Array:
    """Each number replaced by the nearest multiple of a step, of `levels` multiples around 0.

    Derivatives are those of LSQ: rounding counts as the identity, beyond the ends nothing moves.
    """
    scaled = jnp.clip(x / step, *ends(levels))
    return step * (scaled + jax.lax.stop_gradient(jnp.round(scaled) - scaled))


def distance(x: Array, centres: Array) -> Array:
    """R(x, c): half of the sum of distances to the nearest centres."""
    return 0.5 * jnp.abs(x - hard(x, centres)).sum()


def prox_weights(x: Array, centres: Array, step: Array) -> Array:
    """The proximal map of step * R(., c): each number moves step / 2 towards its nearest centre."""
    nearest = hard(x, centres)
    return nearest + soft_threshold(x - nearest, step / 2)


def prox_centres(
    moved: Array, centres: Array, x: Array, step: Array, *, sign: float, per_cell: bool
) -> Array:
    """The proximal map of step * R(x, .) at `moved`, to first order around `centres`.

    A centre moves towards the median of its cell: by step / 2 times the number of weights above it
    less the number below. With `per_cell` the count is divided by the size of the cell. The paper
    and its program have the opposite sign (`sign` = -1), which drives centres away.
    """
    levels, cell = len(centres), cells(x, centres)
    count = cell_sums(jnp.sign(x - centres[cell]), cell, levels)
    if per_cell:
        count = count / jnp.maximum(cell_sums(jnp.ones_like(x), cell, levels), 1)
    return jnp.sort(moved + sign * (step / 2) * count)


def first_centres(x: Array, levels: int) -> Array:
    """Centres to begin with: evenly spaced from the smallest to the largest number.

    Two centres are the means of the negative and of the other numbers.
    """
    if levels > 2:
        return jnp.linspace(x.min(), x.max(), levels, dtype=x.dtype)
    negative = x < 0
    counts = jnp.maximum(jnp.stack([negative.sum(), (~negative).sum()]), 1)
    return jnp.stack([jnp.where(negative, x, 0).sum(), jnp.where(negative, 0, x).sum()]) / counts


class Quantiser(NamedTuple):
    """Which layers of a model are quantised, each with `levels` centres of its own."""

    layers: tuple[tuple[int, int], ...]  # where each begins and ends in the model's vector
    levels: int
    sharpness: Scalar | None = None  # of the soft quantiser; None: the hard one
    training: str = "proximal"  # or "straight-through", or "lsq": what derivatives of Q are

    def apply(self, x: Array, centres: Array) -> Array:
        """The model with its layers quantised, softly or hard; other layers stay as they are."""
        if self.training == "straight-through":
            return self._each(x, lambda part, k: straight_through(part, centres[k]))
        if self.training == "lsq":
            steps = self.steps(centres)
            return self._each(x, lambda part, k: even(part, steps[k], self.levels))
        sharpness = self.sharpness
        if sharpness is None:
            return self.hard(x, centres)
        return self._each(x, lambda part, k: soft(part, centres[k], sharpness))

    def hard(self, x: Array, centres: Array) -> Array:
        """The model with every weight at its nearest centre."""
        return self._each(x, lambda part, k: hard(part, centres[k]))

    def first_centres(self, x: Array) -> Array:
        """Centres to begin with, (layers, levels)."""
        if self.training == "lsq":
            sizes = jnp.stack([jnp.abs(x[a:b]).mean() for a, b in self.layers])
            sizes = jnp.where(sizes > 0, sizes, _SIZE_OF_ZEROS)
            return self.multiples(2 * sizes / math.sqrt(ends(self.levels)[1]))
        return jnp.stack([first_centres(x[a:b], self.levels) for a, b in self.layers])

    def multiples(self, steps: Array) -> Array:
        """The centres of LSQ: of each layer, multiples of its step."""
        low, high = ends(self.levels)
        return steps[:, None] * jnp.arange(low, high + 1, dtype=steps.dtype)

    def steps(self, centres: Array) -> Array:
        """Of each layer the step of which its centres are multiples."""
        return centres[:, -1] / ends(self.levels)[1]

    def distance(self, x: Array, centres: Array) -> Array:
        """R(x, c), summed over layers."""
        parts = [distance(x[a:b], centres[k]) for k, (a, b) in enumerate(self.layers)]
        return sum(parts, start=jnp.zeros((), x.dtype))

    def prox_weights(self, x: Array, centres: Array, step: Array) -> Array:
        """The proximal map of step * R(., c)."""
        return self._each(x, lambda part, k: prox_weights(part, centres[k], step))

    def prox_centres(
        self, moved: Array, centres: Array, x: Array, step: Array, *, sign: float, per_cell: bool
    ) -> Array:
        """The proximal map of step * R(x, .), to first order, layer by layer."""
        return jnp.stack(
            [
                prox_centres(moved[k], centres[k], x[a:b], step, sign=sign, per_cell=per_cell)
                for k, (a, b) in enumerate(self.layers)
            ]
        )

    def follow(self, x: Array, centres: Array, moved: Array) -> Array:
        """The model whose weights keep their cells while the centres move."""
        return self._each(x, lambda part, k: moved[k][cells(part, centres[k])])

    def put(self, into: Array, x: Array) -> Array:
        """`into`, with its quantised layers taken from `x`."""
        return self._each(into, lambda _, k: x[slice(*self.layers[k])])

    def _each(self, x: Array, change: Callable[[Array, int], Array]) -> Array:
        for k, (start, stop) in enumerate(self.layers):
            x = jax.lax.dynamic_update_slice(x, change(x[start:stop], k), (start,))
        return x


def layers_to_quantise(layout: Layout, keep: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Where each weight tensor of a model begins and ends in its vector.

    Tensors of one dimension, such as biases and scales of norms, are not counted.

    Args:
        layout: Of the model.
        keep: The numbers of weight tensors to leave out, such as 0 and -1 for the first and last.
    """
    places, start = [], 0
    for shape in layout.shapes:
        stop = start + math.prod(shape)
        if len(shape) > 1:
            places.append((start, stop))
        start = stop
    count = len(places)
    beyond = [place for place in keep if places and not -count <= place < count]
    if beyond:
        raise ParameterError(
            f"keep must number weight tensors, from {-count} to {count - 1} for the {count} of "
            f"this model; got {beyond[0]}. Leave it out."
        )
    kept = {place % count for place in keep} if places else set()
    return tuple(place for k, place in enumerate(places) if k not in kept)
