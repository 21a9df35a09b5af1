"""The operations that a graph may hold, by PyTorch's names; there are no others.

Each is a JAX function whose parameters are those of the ATen operation of that name, in its order.
Arrays come from other nodes of the graph, everything else stands in the graph as a number.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fedloom.models.graph.operations import (
    arithmetic,
    attention,
    batch_norms,
    convolutions,
    layers,
    making,
    pooling,
    randomness,
    recurrent,
    reductions,
    resizing,
    shapes,
)
from fedloom.models.graph.operations.training import evaluated

# Operations that are otherwise in training, with the step of training before ATen's parameters.
TRAINED: Mapping[str, Callable[..., Any]] = {
    **attention.TRAINED,
    **batch_norms.TRAINED,
    **randomness.TRAINED,
    **recurrent.TRAINED,
}

OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **arithmetic.TABLE,
    **shapes.TABLE,
    **making.TABLE,
    **reductions.TABLE,
    **layers.TABLE,
    **convolutions.TABLE,
    **pooling.TABLE,
    **resizing.TABLE,
    **{name: evaluated(operation) for name, operation in TRAINED.items()},
}
