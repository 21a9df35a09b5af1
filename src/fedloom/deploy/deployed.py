"""A client's model on its own: predict, keep in a small file, hand to other tools."""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save

from fedloom import checksums, models
from fedloom.data.clients import Clients
from fedloom.deploy import other_tools
from fedloom.deploy.packing import PackedArray, Sizes, pack, unpack
from fedloom.errors import DataError, ParameterError
from fedloom.exchange import array_files, wire
from fedloom.files import write_bytes
from fedloom.measuring.result import Result
from fedloom.models.base import Model
from fedloom.oracles import AnyOracle
from fedloom.parameters import Rule, check
from fedloom.population import assemble
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds import keys, program
from fedloom.rounds.mapping import Plan
from fedloom.rows import Spec
from fedloom.types import Array, Tree

_FORMAT = 1
_CODES, _CENTRES = "codes", "centres"


@dataclasses.dataclass(frozen=True)
class Deployed:
    """A network with its arrays: what a client would use after a run."""

    model: Model  # the network
    arrays: Tree  # its weights
    features: tuple[int, ...]  # the shape of one row
    labels: tuple[str, ...]  # what the classes are called

    def predict(self, x: Any) -> np.ndarray:
        """The scores of rows: one for each class.

        Args:
            x: Rows of the shape `features`, stacked along a first axis.
        """
        x = jnp.asarray(x)
        if x.shape[1:] != self.features:
            raise DataError(
                f"predict: rows must have shape {self.features}; got {x.shape[1:]}. Reshape x."
            )
        return np.asarray(_apply(self.model, self.arrays, x))

    @property
    def sizes(self) -> Sizes:
        """What it takes on disk."""
        arrays = wire.named(self.arrays)
        packed = {name: pack(array) for name, array in arrays.items()}
        layers = {name: part for name, part in packed.items() if part is not None}
        small = sum(part.codes.nbytes + part.centres.nbytes for part in layers.values())
        large = sum(4 * arrays[name].size for name in layers)
        rest = sum(array.nbytes for name, array in arrays.items() if name not in layers)
        total = sum(4 * array.size for array in arrays.values())
        return Sizes(total, small + rest, large, small)

    def save(self, path: str | Path) -> None:
        """Write it as safetensors, with arrays of few distinct numbers as packed codes."""
        tensors: dict[str, np.ndarray] = {}
        layers: dict[str, Any] = {}
        for name, array in wire.named(self.arrays).items():
            part = pack(array)
            if part is None:
                tensors[name] = array
                continue
            tensors |= {f"{name}/{_CODES}": part.codes, f"{name}/{_CENTRES}": part.centres}
            layers[name] = {"bits": part.bits, "shape": part.shape}
        about = {
            "format": _FORMAT,
            "model": _describe(self.model),
            "features": self.features,
            "labels": self.labels,
            "packed": layers,
        }
        array_files.write(Path(path), tensors, about, shared=True)

    def export_torch(self, path: str | Path) -> None:
        """Write safetensors with PyTorch's names and shapes, for `load_state_dict`."""
        state = other_tools.state_dict(self.model, self.arrays, self.features)
        write_bytes(Path(path), save(state), shared=True)

    def export_onnx(self, path: str | Path) -> None:
        """Write an ONNX graph that takes the same rows; needs fedloom[export]."""
        graph = other_tools.onnx_graph(self.model, self.arrays, self.features, len(self.labels))
        write_bytes(Path(path), graph, shared=True)


@jax.jit
def _apply(model: Model, arrays: Tree, x: Array) -> Array:
    return model.apply(arrays, x)


def take(
    algorithm: Algorithm, problem: Problem, clients: Clients, result: Result, client: int
) -> Deployed:
    """The model that a client would use after a run.

    Args:
        algorithm: The method that was run.
        problem: The problem: `Personal` or `Supervised`.
        clients: The clients of the run.
        result: What came of it, fresh or loaded.
        client: Which client, from 0.
    """
    there = Rule(lambda v: type(v) is int and 0 <= v < len(clients), "the number of a client", 0)
    check("take", "client", client, there)
    return _taken(algorithm, problem, clients, result, [client])[client]


def take_all(
    algorithm: Algorithm, problem: Problem, clients: Clients, result: Result
) -> list[Deployed]:
    """The models that all clients would use after a run, in the order of the clients.

    Args:
        algorithm: The method that was run.
        problem: The problem: `Personal` or `Supervised`.
        clients: The clients of the run.
        result: What came of it, fresh or loaded.
    """
    everyone = range(len(clients))
    taken = _taken(algorithm, problem, clients, result, everyone)
    return [taken[client] for client in everyone]


def _taken(
    algorithm: Algorithm,
    problem: Problem,
    clients: Clients,
    result: Result,
    wanted: Collection[int],
) -> dict[int, Deployed]:
    precision = str(jax.tree.leaves(result.model)[0].dtype)
    labels = () if clients.labels is None else tuple(map(str, clients.labels))
    taken = {}
    with jax.enable_x64(precision == "float64"):
        federation = assemble(problem, clients, None, precision)
        root, plan = keys.root(0), Plan(None, None)
        like = jax.eval_shape(lambda: program.opening(algorithm, federation, root, plan)[:2])
        kept = (result.state.hub, tuple(result.state.clients))
        hub, states = wire.from_named(wire.named(kept), like)
        vector = algorithm.model(hub, federation.fed)
        for group, state in zip(federation.groups, states, strict=True):
            members = range(len(clients)) if group.members is None else group.members
            for place, client in enumerate(members):
                if client not in wanted:
                    continue
                own = jax.tree.map(lambda leaf: jnp.asarray(leaf[place]), state)  # noqa: B023
                features = clients.train.x.shape[1:]
                f = group.objective(place)
                taken[client] = taken_at(algorithm, f, vector, own, features, labels)
    return taken


def taken_at(
    algorithm: Algorithm,
    f: AnyOracle,
    model: Array,
    state: Tree,
    features: tuple[int, ...],
    labels: tuple[str, ...],
) -> Deployed:
    """What a client makes of the hub's model and its own state."""
    seen = f.own if algorithm.own_models else f
    arrays = seen.layout.unravel(algorithm.deployed(model, state, f))
    return Deployed(seen.problem.model, jax.tree.map(np.asarray, arrays), features, labels)


def load(path: Path) -> Deployed:
    """Read what `Deployed.save` wrote."""
    tensors, about = array_files.read(path)
    if about.get("format") != _FORMAT or "packed" not in about:
        raise DataError(
            f"{path}: is not a model that fedloom packed in format {_FORMAT}. "
            f"Give a file that Deployed.save wrote."
        )
    with checksums.understood(path):
        for name, layer in about["packed"].items():
            codes, centres = tensors.pop(f"{name}/{_CODES}"), tensors.pop(f"{name}/{_CENTRES}")
            tensors[name] = unpack(
                PackedArray(codes, centres, layer["bits"], tuple(layer["shape"]))
            )
        model = models.REGISTRY[about["model"].pop("kind")](**about["model"])
        features, labels = tuple(about["features"]), tuple(about["labels"])
        wide = any(array.dtype == np.float64 for array in tensors.values())
        spec = Spec(features, len(labels), "float64" if wide else "float32")
        with jax.enable_x64(spec.dtype == "float64"):
            like = jax.eval_shape(lambda: model.init(jax.random.key(0), spec))
        return Deployed(model, wire.from_named(tensors, like), features, labels)


def _describe(model: Model) -> dict[str, Any]:
    """The key of a network and its parameters."""
    for key, kind in models.REGISTRY.items():
        if type(model) is kind:
            return {"kind": key, **dataclasses.asdict(model)}  # type: ignore[call-overload]
    raise ParameterError(
        f"save: a network of your own cannot be named in a file; got {model!r}. "
        f"Keep its arrays yourself, or use one of {', '.join(models.REGISTRY)}."
    )
