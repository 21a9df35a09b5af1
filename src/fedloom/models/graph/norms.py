"""What becomes of batch norms: their statistics mix the rows of a batch, and change by themselves.

    group     group norms take their place: of one row at a time, and without statistics
    frozen    they keep the statistics that they have, in training too
    local     the statistics are arrays of the model and learn from each batch; a method may leave
              them, with scales and shifts, at each client

Li, Jiang, Zhang, Kamp, Dou. FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization. ICLR 2021.
"""

import math
from typing import Any

from fedloom.errors import ParameterError
from fedloom.layout import STATISTICS
from fedloom.models.graph.program import NORMS

_GROUP = 8  # channels that a norm takes together, at most, as in `fl.models.ResNet`


def settled(module: Any, norm: str | None) -> Any:
    """A PyTorch module with its batch norms as they are to be; it is changed itself.

    Args:
        module: The module.
        norm: "group", "frozen", "local", or none, which refuses batch norms.
    """
    if norm not in (None, *NORMS):
        raise ParameterError(f"norm must be 'group', 'frozen', 'local' or none; got {norm!r}.")
    found = batch_norms(module)
    if found and norm is None:
        raise ParameterError(
            f"{type(module).__name__} has batch norms ({_few(found)}), whose "
            f"statistics mix the rows of a batch and of clients. Choose norm='group' (they become "
            f"group norms), norm='frozen' (they keep the statistics that they have) or "
            f"norm='local' (the statistics are trained, and may stay at each client)."
        )
    if norm == "group":
        for name, old in found.items():
            module = _replaced(module, name, _group_norm(old))
    return module


def batch_norms(module: Any) -> dict[str, Any]:
    """The batch norms of a module, by name."""
    import torch

    kind = torch.nn.modules.batchnorm._BatchNorm
    return {name: part for name, part in module.named_modules() if isinstance(part, kind)}


def statistics(module: Any) -> set[str]:
    """The names of what a module's batch norms keep of the rows that they saw."""
    return {f"{name}.{kind}".lstrip(".") for name in batch_norms(module) for kind in STATISTICS}


def _group_norm(old: Any) -> Any:
    import torch

    channels = old.num_features
    groups = math.gcd(channels, max(1, channels // _GROUP))
    new = torch.nn.GroupNorm(groups, channels, eps=old.eps, affine=old.affine)
    if old.affine:
        new.weight, new.bias = old.weight, old.bias
    return new


def _replaced(module: Any, name: str, part: Any) -> Any:
    """The module with a part in the place of another; "" is the module itself."""
    if not name:
        return part
    above, _, last = name.rpartition(".")
    setattr(module.get_submodule(above), last, part)
    return module


def _few(found: dict[str, Any]) -> str:
    names = list(found)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
