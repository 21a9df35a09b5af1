"""A network for other tools: PyTorch's names and shapes, and an ONNX graph.

Convolutions are kept here as matrices over (row, column, channel of the kernel); PyTorch and ONNX
want (out, in, row, column). Images here have their channels last, there first, so that the dense
layer behind a convolution sees its inputs in another order. The graph takes rows as fedloom does.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedloom.errors import ParameterError
from fedloom.hints import needs
from fedloom.models import CNN, CNN1, CNN2, MLP, EmbeddingBag, ResNet
from fedloom.models.base import Model
from fedloom.types import Tree

State = dict[str, np.ndarray]
_OPSET = 21  # the first with a norm over groups that scales each channel


def state_dict(model: Model, arrays: Tree, features: tuple[int, ...]) -> State:
    """The arrays under PyTorch's conventions: `conv.0.weight`, `dense.0.bias`, and so on."""
    if isinstance(model, MLP):
        return _dense("dense", arrays)
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
    raise ParameterError(
        f"export: the network must be one of fedloom's own; got {model!r}. "
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


def onnx_graph(model: Model, arrays: Tree, features: tuple[int, ...], classes: int) -> bytes:
    """The network as the bytes of an ONNX file."""
    needs("onnx", "export")
    import onnx
    from onnx import TensorProto, helper

    state = state_dict(model, arrays, features)
    graph = _Graph(state)
    _DRAW[type(model)](graph, model, state)
    tokens = isinstance(model, EmbeddingBag)
    kind = TensorProto.INT32 if tokens else helper.np_dtype_to_tensor_dtype(graph.dtype)
    drawn = helper.make_graph(
        graph.nodes,
        type(model).__name__,
        [helper.make_tensor_value_info("x", kind, ["rows", *features])],
        [
            helper.make_tensor_value_info(
                graph.last, helper.np_dtype_to_tensor_dtype(graph.dtype), ["rows", classes]
            )
        ],
        graph.constants,
    )
    made = helper.make_model(drawn, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)
    onnx.checker.check_model(made)
    return made.SerializeToString()


class _Graph:
    """Nodes one after the other, each on the last one's output unless said otherwise."""

    def __init__(self, state: Mapping[str, np.ndarray]):
        from onnx import numpy_helper

        self.constants = [numpy_helper.from_array(array, name) for name, array in state.items()]
        self.nodes: list[Any] = []
        self.last = "x"
        self.dtype = next(iter(state.values())).dtype

    def add(self, kind: str, *others: str, of: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind.lower()}_{len(self.nodes)}"
        inputs = [self.last if of is None else of, *others]
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self.last = name
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def conv(self, k: int, padding: int, stride: int = 1, *bias: str) -> None:
        self.add("Conv", f"conv.{k}.weight", *bias, pads=[padding] * 4, strides=[stride] * 2)

    def dense(self, count: int) -> None:
        for k in range(count):
            if k:
                self.add("Relu")
            self.add("Gemm", f"dense.{k}.weight", f"dense.{k}.bias", transB=1)


def _count(state: State, name: str) -> int:
    return sum(key.startswith(f"{name}.") and key.endswith("weight") for key in state)


def _mlp(graph: _Graph, model: Model, state: State) -> None:
    graph.add("Flatten")
    graph.dense(_count(state, "dense"))


def _cnn(graph: _Graph, model: Model, state: State) -> None:
    graph.add("Transpose", perm=[0, 3, 1, 2])
    for k in range(_count(state, "conv")):
        pooled = isinstance(model, CNN) or k < 2
        padding = model.padding if isinstance(model, CNN) else 0 if pooled else 2
        graph.conv(k, padding, 1, f"conv.{k}.bias")
        graph.add("Relu")
        if pooled:
            graph.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    _mlp(graph, model, state)


def _bag(graph: _Graph, model: Model, state: State) -> None:
    one, zero = graph.constant(1, graph.dtype), graph.constant(0, np.int32)
    words = graph.add("Gather", "x", of="embedding.weight")
    there = graph.add("Greater", zero, of="x")
    counts = graph.add("Cast", of=there, to=_number(graph.dtype))
    column = graph.add("Unsqueeze", graph.constant([2]))
    kept = graph.add("Mul", column, of=words)
    axis = graph.constant([1])
    total = graph.add("ReduceSum", axis, of=kept, keepdims=0)
    number = graph.add("ReduceSum", axis, of=counts, keepdims=1)
    most = graph.add("Max", one, of=number)
    graph.add("Div", most, of=total)
    graph.dense(1)


def _resnet(graph: _Graph, model: ResNet, state: State) -> None:
    def normed(k: int, stride: int) -> None:
        channels = len(state[f"norm.{k}.weight"])
        graph.conv(k, 1, stride)
        graph.add(
            "GroupNormalization",
            f"norm.{k}.weight",
            f"norm.{k}.bias",
            num_groups=model.groups_of(channels),
            epsilon=1e-5,
        )

    graph.add("Transpose", perm=[0, 3, 1, 2])
    normed(0, 1)
    before = graph.add("Relu")
    for block in range((_count(state, "conv") - 1) // 2):
        stride = 2 if block and block % model.blocks == 0 else 1
        first = 2 * block + 1
        normed(first, stride)
        graph.add("Relu")
        normed(first + 1, 1)
        after, short = graph.last, before
        if stride > 1:
            ends = [graph.constant(v) for v in ([0, 0], [2**31, 2**31], [2, 3], [2, 2])]
            graph.add("Slice", *ends, of=before)
            extra = len(state[f"norm.{first}.weight"]) - len(state[f"norm.{first - 1}.weight"])
            sides = [0, extra // 2, 0, 0, 0, extra - extra // 2, 0, 0]
            short = graph.add("Pad", graph.constant(sides))
        graph.add("Add", short, of=after)
        before = graph.add("Relu")
    graph.add("ReduceMean", graph.constant([2, 3]), keepdims=0)
    graph.dense(1)


def _number(dtype: Any) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(dtype)


_DRAW: dict[type, Callable[[_Graph, Any, State], None]] = {
    MLP: _mlp,
    CNN: _cnn,
    CNN1: _cnn,
    CNN2: _cnn,
    EmbeddingBag: _bag,
    ResNet: _resnet,
}
