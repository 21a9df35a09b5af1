"""A network as an ONNX graph: it takes rows as fedloom does, and gives scores and probabilities."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedloom.deploy.networks import LOG, LOGITS
from fedloom.deploy.other_tools import State
from fedloom.hints import needs
from fedloom.metrics import links
from fedloom.models import CNN, CNN1, CNN2, GRU, MLP, EmbeddingBag, ResNet
from fedloom.models.base import Model

_OPSET = 21  # the first with a norm over groups that scales each channel
SCORES, PROBABILITIES, PREDICTIONS = "scores", "probabilities", "predictions"


def drawn(
    model: Model,
    state: State,
    rows: tuple[np.dtype, tuple[int, ...]],
    outputs: int,
    link: str | None,
    facts: dict[str, Any],
) -> bytes:
    """The bytes of an ONNX file; `state` has PyTorch's names, `rows` say what a row is like."""
    needs("onnx", "export")
    import onnx
    from onnx import helper

    dtype, features = rows
    graph = _Graph(state)
    _DRAW[type(model)](graph, model, state)
    graph.call(SCORES)
    places = features if isinstance(model, GRU) else ()  # of a text, each has its scores
    results = {SCORES: outputs}
    if link == LOG:
        graph.add("Exp")
        graph.call(PREDICTIONS)
        results[PREDICTIONS] = outputs
    elif link == LOGITS:
        graph.add("Sigmoid")
        graph.call(PROBABILITIES)
        results[PROBABILITIES] = outputs
    elif links.PROBABILITIES in links.GIVES.get(link, ()):
        graph.probabilities(str(link))
        results[PROBABILITIES] = max(outputs, 2)
    used = {name for node in graph.nodes for name in node.input}
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            type(model).__name__,
            [helper.make_tensor_value_info("x", _number(dtype), ["rows", *features])],
            [
                helper.make_tensor_value_info(name, _number(graph.dtype), ["rows", *places, width])
                for name, width in results.items()
            ],
            [constant for constant in graph.constants if constant.name in used],
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=10,
    )
    helper.set_model_props(made, {"fedloom": json.dumps(facts)})
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

    def call(self, name: str) -> None:
        """Give what was computed last a name of its own."""
        self.nodes[-1].output[0] = self.last = name

    def probabilities(self, link: str) -> None:
        """Of each class; a single score is the log-odds of the second of two."""
        if link == "softmax":
            self.add("Softmax", axis=-1)
        else:
            scores = self.last
            self.add("Concat", scores, of=self.add("Neg"), axis=-1)
            self.add("Sigmoid")
        self.call(PROBABILITIES)

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


def _gru(graph: _Graph, model: GRU, state: State) -> None:
    def gates(name: str) -> np.ndarray:
        """Those of ONNX are z, r, n."""
        r, z, n = np.split(state[f"gru.{name}_l0"], 3)
        return np.concatenate([z, r, n])[None]

    biases = np.concatenate([gates("bias_ih"), gates("bias_hh")], axis=1)
    parts = [graph.constant(gates(f"weight_{name}"), graph.dtype) for name in ("ih", "hh")]
    graph.add("Gather", "x", of="embedding.weight")
    graph.add("Transpose", perm=[1, 0, 2])  # places first
    both = graph.constant(biases, graph.dtype)
    graph.add("GRU", *parts, both, hidden_size=model.hidden, linear_before_reset=1)
    graph.add("Squeeze", graph.constant([1]))  # one direction
    graph.add("Transpose", perm=[1, 0, 2])
    graph.add("MatMul", graph.constant(state["dense.0.weight"].T, graph.dtype))
    graph.add("Add", "dense.0.bias")


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
    GRU: _gru,
    ResNet: _resnet,
}
