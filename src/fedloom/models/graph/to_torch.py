"""Trained arrays back into a PyTorch module."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.errors import ParameterError
from fedloom.models.graph.norms import settled
from fedloom.types import Tree


def to_torch(module: Any, arrays: Tree, *, norm: str | None = None) -> Any:
    """Put arrays into a PyTorch module of the same architecture; returns the module.

    Everything in the module that is not among the arrays stays as it is.

    Args:
        module: The module; its arrays are overwritten.
        arrays: The arrays by PyTorch's names, such as the `model` of a result.
        norm: The `norm` that was given to `fl.models.from_torch`: "group" turns the module's batch
            norms into group norms too, "local" sets their trained statistics.
    """
    import torch

    if not isinstance(arrays, Mapping) or not all(isinstance(n, str) for n in arrays):
        raise ParameterError(
            "to_torch: the model is not one of a graph, whose arrays have PyTorch's names. Use "
            "`fedloom export --to torch` for fedloom's own networks."
        )
    module = settled(module, norm)
    state = module.state_dict()
    for name, array in arrays.items():
        if name not in state or tuple(state[name].shape) != np.shape(array):
            there = f"of shape {tuple(state[name].shape)}" if name in state else "not there"
            raise ParameterError(
                f"to_torch: {name} of shape {np.shape(array)} does not fit into "
                f"{type(module).__name__}, where it is {there}. Give a module that was made like "
                f"the one that was imported."
            )
    tensors = {name: torch.tensor(np.asarray(array)) for name, array in arrays.items()}
    module.load_state_dict(tensors, strict=False)
    return module
