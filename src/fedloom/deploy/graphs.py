"""Networks that came from PyTorch, within the file of a packed model: program and frozen arrays."""

from typing import Any

import numpy as np

from fedloom.models.graph.graph import Graph, graph_of
from fedloom.models.graph.program import parsed
from fedloom.models.graph.trial import check

KIND = "graph"
_FROZEN = "frozen/"  # before the names of arrays that are not trained


def described(model: Graph) -> dict[str, Any]:
    """What a file says of the network beside its arrays."""
    return {"kind": KIND, "program": model.held.program.text}


def frozen(model: Graph) -> dict[str, np.ndarray]:
    """The arrays that are not trained, under names of their own."""
    return {f"{_FROZEN}{name}": np.asarray(a) for name, a in model.held.frozen.items()}


def rebuilt(table: dict[str, Any], tensors: dict[str, np.ndarray]) -> Graph:
    """The network again; its frozen arrays are taken out of the tensors."""
    program = parsed(table["program"])
    names = [name for name in tensors if name.startswith(_FROZEN)]
    arrays = {name.removeprefix(_FROZEN): tensors.pop(name) for name in names}
    arrays |= {name: np.asarray(tensors[name], np.float32) for name in program.trained}
    check(program, arrays)
    return graph_of(program, arrays)
