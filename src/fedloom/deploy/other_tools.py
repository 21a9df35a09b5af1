"""A network under PyTorch's names and shapes, which the ONNX graph takes over.

Convolutions are kept here as matrices over (row, column, channel of the kernel); PyTorch and ONNX
want (out, in, row, column). Images here have their channels last, there first, so that the dense
layer behind a convolution sees its inputs in another order.
"""

import math

import numpy as np

from fedloom.deploy.networks import title
from fedloom.errors import ParameterError
from fedloom.models import CNN, CNN1, CNN2, GRU, MLP, EmbeddingBag, Graph, ResNet, Transformer
from fedloom.models.base import Model
from fedloom.types import Tree

State = dict[str, np.ndarray]


def state_dict(model: Model, arrays: Tree, features: tuple[int, ...]) -> State:
    """The arrays under PyTorch's conventions: `conv.0.weight`, `dense.0.bias`, and so on."""
    if isinstance(model, MLP):
        return _dense("dense", arrays)
    if isinstance(model, Graph):
        return {name: np.asarray(a) for name, a in {**model.held.frozen, **arrays}.items()}
    if isinstance(model, CNN | CNN1 | CNN2):
        state: State = {}
        channels = features[-1]
        for k, layer in enumerate(arrays["conv"]):
            state |= {f"conv.{k}.weight": _kernel(layer["weights"], channels)}
            state |= {f"conv.{k}.bias": np.asarray(layer["bias"])}
            channels = layer["weights"].shape[1]
        return state | _dense("dense", arrays["dense"], channels_last=channels)
    if isinstance(model, EmbeddingBag):
        table, head = arrays
        return {"embedding.weight": np.asarray(table["weights"])} | _dense("dense", [head])
    if isinstance(model, ResNet):
        *parts, head = arrays
        state, channels = {}, features[-1]
        for k, layer in enumerate(parts):
            state[f"conv.{k}.weight"] = _kernel(layer["weights"], channels)
            state[f"norm.{k}.weight"] = np.asarray(layer["scale"])
            state[f"norm.{k}.bias"] = np.asarray(layer["bias"])
            channels = layer["weights"].shape[1]
        return state | _dense("dense", [head])
    if isinstance(model, GRU):
        state = {"embedding.weight": np.asarray(arrays["embedding"]["weights"])}
        for ours, theirs in (("input", "ih"), ("state", "hh")):  # the gates r, z, n in both
            weights = np.asarray(arrays[ours]["weights"])
            state[f"gru.weight_{theirs}_l0"] = np.ascontiguousarray(weights.T)
            state[f"gru.bias_{theirs}_l0"] = np.asarray(arrays[ours]["bias"])
        return state | _dense("dense", [arrays["output"]])
    if isinstance(model, Transformer):
        raise ParameterError(
            "export: the network must be one that ONNX and PyTorch files are written for; got a "
            "Transformer. Keep it by Deployed.save, which fl.load reads."
        )
    raise ParameterError(
        f"export: the network must be one of fedloom's own; got {title(model)}. "
        f"Export your own network with the tools of its library."
    )


def _kernel(matrix: np.ndarray, channels: int) -> np.ndarray:
    size = math.isqrt(matrix.shape[0] // channels)
    kernel = np.asarray(matrix).reshape(size, size, channels, -1)
    return np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))


def _dense(
    name: str, stack: list[dict[str, np.ndarray]], channels_last: int | None = None
) -> State:
    state: State = {}
    for k, layer in enumerate(stack):
        weights = np.asarray(layer["weights"])
        if k == 0 and channels_last is not None:
            by_place = weights.reshape(-1, channels_last, weights.shape[1])
            weights = by_place.transpose(1, 0, 2).reshape(weights.shape)
        state[f"{name}.{k}.weight"] = np.ascontiguousarray(weights.T)
        state[f"{name}.{k}.bias"] = np.asarray(layer["bias"])
    return state
