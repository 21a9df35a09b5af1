"""From a PyTorch module to a graph. The one place where PyTorch is needed."""

import contextlib
import copy
import math
import operator
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedloom.errors import DataError, ParameterError
from fedloom.models.graph.graph import Graph, graph_of
from fedloom.models.graph.norms import batch_norms, settled, statistics
from fedloom.models.graph.operations import OPERATIONS
from fedloom.models.graph.program import FORMAT, LARGEST_NUMBER, canonical, parsed
from fedloom.models.graph.trial import check

# Where and how PyTorch would keep an array; here that is the run's choice.
_NOT_OURS = ("device", "layout", "memory_format", "pin_memory", "non_blocking", "requires_grad")
_NOBODYS = ("site-packages/torch/", "fedloom/models/graph/")  # code that no user wrote
_MASK = "aten.bernoulli.p"
_INSIDE = "module."  # of the wrapper around the module that is exported


def from_torch(module: Any, example: Any, *, norm: str | None = None) -> Graph:
    """Import a PyTorch module as a network: its operations and arrays become data.

    Parameters with `requires_grad` are trained; all other parameters and the buffers stay as they
    are. Dropout is on in training if the module is in training mode, as new modules are, and off
    after `module.eval()`; evaluation is always without it. The number of rows may vary, the shape
    of one row may not.

    Args:
        module: The module. It takes one tensor of rows and returns one, or an object with `logits`.
        example: Some rows that the module takes, at least one, such as `torch.zeros(1, 3, 32, 32)`.
        norm: What becomes of batch norms, whose statistics mix the rows of a batch. "group" turns
            them into group norms, "frozen" keeps their statistics as they are, and "local" trains
            the statistics, so that a method may leave them at each client. None: a module with
            batch norms is refused.
    """
    torch = torch_here()
    example = torch.as_tensor(example)
    if example.ndim < 1 or len(example) < 1:
        raise ParameterError(
            f"from_torch: example must be rows of the module, such as torch.zeros(1, 3, 32, 32); "
            f"got shape {tuple(example.shape)}."
        )
    own = settled(copy.deepcopy(module), norm)
    for part in batch_norms(own).values():
        part.eval()  # as one operation, of which our own kind of training is known
    exported = _exported(torch, own, example)
    return _graph(torch, exported, own, example, norm if batch_norms(module) else None)


def torch_here() -> Any:
    """PyTorch, or an error that says where it is needed."""
    try:
        import torch
    except ImportError as error:
        raise ParameterError(
            "from_torch needs PyTorch, which is not installed here. Install torch, or read a file "
            "that `fedloom import-torch` wrote elsewhere."
        ) from error
    return torch


def _exported(torch: Any, module: Any, example: Any) -> Any:
    """The module's program in ATen, with any number of rows."""

    class Whole(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> Any:
            output = self.module(x)
            return getattr(output, "logits", output)

    rows = torch.cat([example, example, example])  # PyTorch takes one row for a fixed number
    shapes = {"x": {0: torch.export.Dim("rows", min=2)}}
    with _plain_layers(torch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(Whole(), (rows,), dynamic_shapes=shapes, strict=False)
            return exported.run_decompositions({})
        except Exception as error:  # PyTorch's own, of many kinds
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise DataError(
                f"from_torch: PyTorch cannot export {type(module).__name__} for any number of "
                f"rows: {said[0]} The module must take one tensor of rows, and its code must not "
                f"depend on their number or values.{_hint(module)}"
            ) from error


@contextlib.contextmanager
def _plain_layers(torch: Any) -> Iterator[None]:
    """Transformers as their separate operations, not as one fused for inference."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _graph(torch: Any, exported: Any, module: Any, example: Any, norm: str | None) -> Graph:
    signature = exported.graph_signature
    tensors = {**exported.state_dict, **exported.constants}
    names = _names(torch, module, tensors)
    outputs = [spec.arg for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    changed = [spec for spec in signature.output_specs if spec.kind.name != "USER_OUTPUT"]
    if len(outputs) != 1 or not hasattr(outputs[0], "name") or changed:
        raise DataError(
            f"from_torch: {type(module).__name__} must return one tensor and change no buffers; it "
            f"returns {len(outputs)} and changes {len(changed)}. Wrap it in a module that returns "
            f"the one that is meant.{_hint(module)}"
        )
    nodes = _needed(_nodes(torch, exported, module), outputs[0].name)
    used = {name for _, _, args, kwargs in nodes for name in _mentioned([args, kwargs])}
    first, inputs = "", {}
    for spec in signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            first = spec.arg.name
        elif spec.arg.name in used:
            inputs[spec.arg.name] = names[spec.target]
    arrays = {
        names[target]: _array(tensor) for target, tensor in tensors.items() if target in names
    }
    arrays = {name: array for name, array in arrays.items() if name in inputs.values()}
    trains = {
        names[_INSIDE + name]
        for name, parameter in module.named_parameters(remove_duplicate=False)
        if parameter.requires_grad
    }
    if norm == "local":
        trains |= statistics(module)
    trained = [name for name in arrays if name in trains]
    if not trained:
        raise DataError(
            f"from_torch: {type(module).__name__} has nothing to train: none of its parameters has "
            f"requires_grad and a part in the output. Unfreeze some."
        )
    program = parsed(
        canonical(
            {
                "format": FORMAT,
                "row": {"shape": list(example.shape[1:]), "dtype": _dtype(torch, example.dtype)},
                "input": first,
                "inputs": inputs,
                "trained": trained,
                "aliases": _aliases(names, arrays),
                "norm": norm,
                "nodes": nodes,
                "output": outputs[0].name,
            }
        )
    )
    check(program, arrays)
    return graph_of(program, arrays)


def _names(torch: Any, module: Any, tensors: Mapping[str, Any]) -> dict[str, str]:
    """What each tensor of an export is called; tensors that are one have the first one's name."""
    first: dict[Any, str] = {}
    names = {}
    owned = dict(module.named_parameters(remove_duplicate=False))
    for target, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        name = target.removeprefix(_INSIDE)
        same = id(owned[name]) if name in owned else id(tensor)
        names[target] = first.setdefault(same, name)
    return names


def _aliases(names: Mapping[str, str], arrays: Mapping[str, Any]) -> dict[str, str]:
    told = {target.removeprefix(_INSIDE): name for target, name in names.items()}
    return {other: name for other, name in told.items() if other != name and name in arrays}


def _nodes(torch: Any, exported: Any, module: Any) -> list[list[Any]]:
    """The operations in their order, as plain values."""
    unknown: dict[str, str] = {}
    nodes = []
    for node in exported.graph.nodes:
        if node.op != "call_function" or "_assert" in str(node.target):
            continue  # PyTorch's own checks of sizes compute nothing
        name = _operation(node.target)
        if name not in OPERATIONS or (name == _MASK and not _is_divided(node)):
            unknown.setdefault(name, _place(node))
            continue
        kwargs = {k: _plain(torch, v) for k, v in node.kwargs.items() if k not in _NOT_OURS}
        args = [_plain(torch, value) for value in node.args]
        if name.startswith("aten.squeeze."):
            name, args = "aten.squeeze.dims", [args[0], _squeezed(node)]
        nodes.append([node.name, name, args, kwargs])
    if unknown:
        told = "; ".join(f"{name}{place}" for name, place in unknown.items())
        raise DataError(
            f"from_torch: fedloom does not know the operation{'s' * (len(unknown) > 1)} {told}. "
            f"Write that part of the module with other operations.{_hint(module)}"
        )
    return nodes


def _hint(module: Any) -> str:
    """What may help with a module that does more in training than in evaluation."""
    without = " Or import it after module.eval(), without what it does in training alone."
    return without if module.training else ""


def _is_divided(mask: Any) -> bool:
    """Whether a mask of ones with the chance p is divided by p, and so is 1 in the mean."""
    return all(
        _operation(user.target).startswith("aten.div.") and user.args[1:] == mask.args[1:]
        for user in mask.users
    )


def _squeezed(node: Any) -> list[int]:
    """The axes that an operation takes away, of length 1 however many rows there are."""
    before = node.args[0].meta["val"].shape
    given = node.args[1] if len(node.args) > 1 else range(len(before))
    axes = [given] if isinstance(given, int) else given
    return [axis % len(before) for axis in axes if before[axis] == 1]


def _operation(target: Any) -> str:
    name = getattr(target, "__name__", "")
    return f"operator.{name}" if getattr(operator, name, None) is target else str(target)


def _place(node: Any) -> str:
    """Where in the module, and in whose code, a node came from."""
    stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    path = stack[-1].removeprefix("module").removeprefix(".") if stack else ""
    lines = [
        line.strip()
        for line in (node.meta.get("stack_trace") or "").splitlines()
        if line.strip().startswith("File ") and not any(part in line for part in _NOBODYS)
    ]
    where = f" in {path}" if path else " in forward"
    return f"{where} ({lines[-1]})" if lines else where


def _plain(torch: Any, value: Any) -> Any:
    """An argument as the program has it."""
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_plain(torch, part) for part in value]
    if isinstance(value, torch.dtype):
        return {"dtype": _dtype(torch, value)}
    if isinstance(value, torch.device | torch.layout | torch.memory_format):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, int) and not isinstance(value, bool):
        # "To the end" is PyTorch's largest number.
        return max(-LARGEST_NUMBER, min(LARGEST_NUMBER, value))
    if value is None or isinstance(value, bool | float | str):
        return value
    raise DataError(f"from_torch: an argument cannot be a {type(value).__name__}: {value!r}.")


def _dtype(torch: Any, dtype: Any) -> str:
    return "bool" if dtype == torch.bool else "float" if dtype.is_floating_point else "int"


def _array(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    return array.astype(np.int32) if array.dtype.kind in "iu" else array


def _mentioned(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value.keys() == {"node"}:
        yield value["node"]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _mentioned(part)


def _needed(nodes: list[list[Any]], output: str) -> list[list[Any]]:
    """Only the nodes from which the output is computed."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if node[0] in wanted:
            wanted |= set(_mentioned(node[2:]))
            kept.append(node)
    return kept[::-1]
