"""The compiler alone: small functions of a row, mapped over many rows, against NumPy.

jaxlib 0.10 goes wrong on such programs, 0.10.2 from 16,385 rows on and earlier ones from 32,769 on.
Which of them a method contains is chance, and depends on the user's model; here they are alone.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ROWS = (255, 16_385, 40_000)
SIDES = ((3, 3), (5, 2))  # of the matrix that multiplies a row
TOLERANCES = {"float64": 1e-11, "float32": 1e-4}

# Each on the product of a matrix and a row: in JAX for one row, in NumPy for all.
OF_A_ROW: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "sum of squares": (lambda v: jnp.sum(v**2), lambda v: (v**2).sum(-1)),
    "sum": (jnp.sum, lambda v: v.sum(-1)),
    "largest": (jnp.max, lambda v: v.max(-1)),
    "log of the sum of exponentials": (
        jax.nn.logsumexp,
        lambda v: np.log(np.exp(v).sum(-1)),
    ),
    "norm": (jnp.linalg.norm, lambda v: np.sqrt((v**2).sum(-1))),
    "product itself": (lambda v: v, lambda v: v),
}


class Mapped(NamedTuple):
    """A program: a function of rows, and their number and type."""

    function: str
    rows: int
    sides: tuple[int, int]
    precision: str


def programs() -> Iterator[Mapped]:
    """All of them."""
    yield from map(Mapped._make, itertools.product(OF_A_ROW, ROWS, SIDES, TOLERANCES))


def wrong(program: Mapped) -> str:
    """What is wrong, in words; empty where JAX agrees with NumPy to rounding."""
    rng = np.random.default_rng(0)
    high, wide = program.sides
    matrix = rng.normal(size=(high, wide)).astype(program.precision)
    rows = rng.normal(size=(program.rows, wide)).astype(program.precision)
    of_one, of_all = OF_A_ROW[program.function]
    with jax.enable_x64(program.precision == "float64"):
        mapped = jax.jit(jax.vmap(lambda row: of_one(jnp.asarray(matrix) @ row)))
        got = np.asarray(mapped(jnp.asarray(rows)), float)
    expected = of_all(rows.astype(float) @ matrix.astype(float).T)
    allowed = TOLERANCES[program.precision] * (1 + np.abs(expected).max())
    places = np.flatnonzero(np.abs(got - expected).reshape(program.rows, -1).max(1) > allowed)
    if not len(places):
        return ""
    return f"{program}: {len(places)} rows are wrong, the first is row {places[0]}"
