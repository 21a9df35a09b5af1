"""A network as a file names it: the key of its class, and its parameters."""

import dataclasses
from typing import Any

import numpy as np

from fedloom import models
from fedloom.deploy import graphs
from fedloom.deploy.networks import title
from fedloom.errors import ParameterError
from fedloom.models.base import Model


def rebuilt(table: dict[str, Any], tensors: dict[str, np.ndarray]) -> Model:
    """The network that a table describes."""
    if table["kind"] == graphs.KIND:
        return graphs.rebuilt(table, tensors)
    return models.REGISTRY[table.pop("kind")](**table)


def described(model: Model) -> dict[str, Any]:
    """The key of a network and its parameters."""
    if isinstance(model, models.Graph):
        return graphs.described(model)
    for key, kind in models.REGISTRY.items():
        if type(model) is kind:
            return {"kind": key, **dataclasses.asdict(model)}  # type: ignore[call-overload]
    raise ParameterError(
        f"save: a network of your own cannot be named in a file; got {title(model)}. "
        f"Keep its arrays yourself, or use one of {', '.join(models.REGISTRY)}."
    )
