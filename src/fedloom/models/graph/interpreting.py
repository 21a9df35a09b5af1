"""Run a program on arrays, and check beforehand what it would compute."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models.graph.operations import OPERATIONS, TRAINED
from fedloom.models.graph.operations.training import Step
from fedloom.models.graph.program import Dtype, Node, Program, Ref
from fedloom.types import Array, Held

LARGEST_ARRAY = 2**31  # numbers in what any node computes of two rows
_ROWS = 2  # of a trial
_TYPES: Mapping[str, Any] = {"float": jnp.float32, "int": jnp.int32, "bool": jnp.bool_}


def run(
    program: Program,
    arrays: Mapping[str, Array],
    x: Held,
    watch: Callable[[Node, Any], None] | None = None,
    step: Step | None = None,
) -> Array:
    """What the program returns for rows x, of the shape and in the order that it takes.

    Args:
        program: The program.
        arrays: Its arrays, by name. Floating-point numbers are of one type.
        x: The rows.
        watch: Called with each node and its value.
        step: Of training, where x is one row of a batch.
    """
    values: dict[str, Any] = {program.input: x}
    values |= {node: arrays[name] for node, name in program.inputs}
    types = {**_TYPES, "float": arrays[program.trained[0]].dtype}

    def value(given: Any) -> Any:
        if isinstance(given, Ref):
            return values[given.node]
        if isinstance(given, Dtype):
            return types[given.name]
        return [value(part) for part in given] if isinstance(given, tuple) else given

    for node in program.nodes:
        try:
            args = [value(given) for given in node.args]
            named = {name: value(given) for name, given in node.kwargs}
            if step is not None and node.operation in TRAINED:
                values[node.name] = TRAINED[node.operation](step, *args, **named)
            else:
                values[node.name] = OPERATIONS[node.operation](*args, **named)
        except Exception as error:  # whatever an operation says of arguments that do not fit
            raise DataError(
                f"node {node.name!r} of the graph: {node.operation} cannot be applied: {error}"
            ) from error
        if watch is not None:
            watch(node, values[node.name])
    output: Array = values[program.output]
    return output


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
        name: jax.ShapeDtypeStruct(array.shape, _TYPES[_kind(array.dtype)])
        for name, array in shapes.items()
    }
    _bound("the rows", (_ROWS, *program.row))
    x = jax.ShapeDtypeStruct((_ROWS, *program.row), _TYPES[program.dtype])
    output = jax.eval_shape(trial, typed, x)
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
