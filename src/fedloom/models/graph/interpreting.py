"""Run a program on arrays."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models.graph.operations import OPERATIONS, TRAINED
from fedloom.models.graph.operations.training import Step
from fedloom.models.graph.program import Dtype, Node, Program, Ref
from fedloom.types import Array, Held

TYPES: Mapping[str, Any] = {"float": jnp.float32, "int": jnp.int32, "bool": jnp.bool_}


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
    types = {**TYPES, "float": arrays[program.trained[0]].dtype}

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
