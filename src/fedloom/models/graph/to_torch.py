"""Trained arrays back into a PyTorch module."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.errors import ParameterError
from fedloom.models.graph.norms import settled
from fedloom.types import Tree


def to_torch(module: Any, arrays: Tree, *, norm: str | None = None) -> Any:
    """Put arrays into a PyTorch module of the same architecture; returns the module.

    What the arrays do not name stays as it is in the module.

    Args:
        module: The module, which is changed.
        arrays: By PyTorch's names, as the model of a graph has them.
        norm: What became of batch norms at the import: "group" makes them group norms here too,
            with "local" they get the trained statistics.
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
