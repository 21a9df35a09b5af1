"""Try a program before anything is computed with it."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.errors import DataError
from fedloom.models.graph import in_training
from fedloom.models.graph.interpreting import TYPES, run
from fedloom.models.graph.program import Node, Program
from fedloom.rows import Drawn
from fedloom.types import Array

LARGEST_ARRAY = 2**31  # numbers in what any node computes of two rows
_ROWS = 2  # of a trial


def check(program: Program, shapes: Mapping[str, Any]) -> tuple[int, ...]:
    """Try a program with nothing but shapes; returns the shape of one row's output.

    Args:
        program: The program.
        shapes: The arrays, or what is like them in shape and type.
    """
    missing = [name for name in program.arrays if name not in shapes]
    unknown = [name for name in shapes if name not in program.arrays]
    if missing or unknown:
        raise DataError(
            f"the arrays of a graph must be those that it names; missing: {missing or 'none'}, "
            f"not named: {unknown or 'none'}."
        )
    for name, array in shapes.items():
        kind = jnp.dtype(array.dtype).kind
        if kind not in ("f", "i", "b") or (name in program.trained and kind != "f"):
            raise DataError(f"the array {name!r} of a graph cannot be of type {array.dtype}.")
        _bound(f"the array {name!r}", array.shape)

    def watch(node: Node, value: Any) -> None:
        for part in jax.tree.leaves(value):
            _bound(f"node {node.name!r} ({node.operation})", jnp.shape(part))

    def trial(arrays: Mapping[str, Array], x: Array) -> Array:
        return run(program, arrays, x, watch)

    typed = {
        name: jax.ShapeDtypeStruct(array.shape, TYPES[_kind(array.dtype)])
        for name, array in shapes.items()
    }
    _bound("the rows", (_ROWS, *program.row))
    x = jax.ShapeDtypeStruct((_ROWS, *program.row), TYPES[program.dtype])
    output = jax.eval_shape(trial, typed, x)
    drawn = Drawn(draws.key(0), jnp.ones(_ROWS, bool))
    if in_training.differs(program, drawn):
        jax.eval_shape(lambda arrays, x: in_training.outputs(program, arrays, x, drawn), typed, x)
    if not hasattr(output, "shape") or output.ndim < 1 or output.shape[0] != _ROWS:
        raise DataError(
            f"a graph must return one output for each row; for {_ROWS} rows it returns "
            f"{getattr(output, 'shape', type(output).__name__)}."
        )
    return tuple(output.shape[1:])


def _kind(dtype: Any) -> str:
    return {"f": "float", "b": "bool"}.get(jnp.dtype(dtype).kind, "int")


def _bound(what: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > LARGEST_ARRAY:
        raise DataError(
            f"{what} of the graph has shape {shape}; it must have at most {LARGEST_ARRAY} numbers."
        )
