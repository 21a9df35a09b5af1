"""Poolings before biases and relus: the same outputs from a quarter of the work.

The largest of a window commutes with what grows and is the same all over the window: max (x + b) is
max x + b, to the last bit since rounding keeps the order, and max relu(x) is relu(max x). PyTorch's
networks put biases and relus first; behind a pooling there are fewer numbers to add to, and fewer
slopes to sum.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fedloom.models.graph.operations.convolutions import TABLE as CONVOLUTIONS
from fedloom.models.graph.program import Node, Program, Ref

_POOLINGS = {"aten.max_pool1d.default": 1, "aten.max_pool2d.default": 2}  # over how many axes
_RELUS = ("aten.relu.default", "aten.relu_.default")
_BIAS = 2  # which argument of a convolution it is


def poolings_first(program: Program) -> Program:
    """The program with its poolings before the biases and relus whose values nobody else uses."""
    used = Counter(name for node in program.nodes for name in _mentioned((node.args, node.kwargs)))
    used[program.output] += 1
    kept: dict[str, Node] = {}
    for node in program.nodes:
        if node.operation in _POOLINGS:
            _put_first(node, kept, used)
        else:
            kept[node.name] = node
    return dataclasses.replace(program, nodes=tuple(kept.values()))


def _put_first(pooling: Node, kept: dict[str, Node], used: Counter[str]) -> None:
    """Add a pooling, and behind it what stood before it and can be moved."""
    x, *rest = pooling.args
    moved: list[tuple[str, tuple[Any, ...]]] = []  # operations with their other arguments
    before = _source(x, kept, used)
    if before is not None and before.operation in _RELUS:
        moved.append((before.operation, ()))
        x = kept.pop(before.name).args[0]
        before = _source(x, kept, used)
    if before is not None and _has_bias(before):
        head, bias, tail = before.args[:_BIAS], before.args[_BIAS], before.args[_BIAS + 1 :]
        kept[before.name] = before._replace(args=(*head, None, *tail))
        name, column = f"{pooling.name}.bias", (-1, *[1] * _POOLINGS[pooling.operation])
        kept[name] = Node(name, "aten.view.default", (bias, column), ())
        moved.insert(0, ("aten.add.Tensor", (Ref(name),)))
    steps = [(pooling.operation, tuple(rest)), *moved]
    for place, (operation, others) in enumerate(steps, 1):
        last = place == len(steps)  # it has the value that the pooling had, and so its name
        name = pooling.name if last else f"{pooling.name}.{place}"
        kwargs = pooling.kwargs if place == 1 else ()
        kept[name] = Node(name, operation, (x, *others), kwargs)
        x = Ref(name)


def _source(x: Any, kept: dict[str, Node], used: Counter[str]) -> Node | None:
    """The node whose value x is, if nothing else uses it."""
    alone = isinstance(x, Ref) and x.node in kept and used[x.node] == 1
    return kept[x.node] if alone else None


def _has_bias(node: Node) -> bool:
    found = node.operation in CONVOLUTIONS and len(node.args) > _BIAS
    return found and isinstance(node.args[_BIAS], Ref)


def _mentioned(given: Any) -> Iterator[str]:
    """The names of the nodes that arguments refer to."""
    if isinstance(given, Ref):
        yield given.node
    elif isinstance(given, tuple):
        for part in given:
            yield from _mentioned(part)
