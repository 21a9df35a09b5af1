"""A network that came from PyTorch, as data."""

import base64
import dataclasses
import functools
import hashlib
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError, FedloomError, ParameterError
from fedloom.models.base import Model
from fedloom.models.graph import file as graph_file
from fedloom.models.graph import in_training
from fedloom.models.graph.interpreting import run
from fedloom.models.graph.program import Program, Ref
from fedloom.models.graph.reordering import poolings_first
from fedloom.parameters import Rule, param, parametrised, unwritten
from fedloom.pytrees import pytree, static
from fedloom.rows import Drawn, Spec
from fedloom.types import Array, Held, Tree

_NORMS = ("aten._native_batch_norm_legit_no_training.default", "aten.group_norm.default")
_CHANNELS_LAST = (0, 2, 3, 1)
_CHANNELS_FIRST = (0, 3, 1, 2)
_path = Rule(lambda v: isinstance(v, str), "a path", "net.safetensors", {"type": "string"})
_digest = Rule(
    lambda v: v is None or (isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v) is not None),
    "64 digits, or none (whatever the file holds)",
    None,
    {"type": "string", "pattern": "^[0-9a-f]{64}$"},
)
_carried = Rule(
    lambda v: v is None or isinstance(v, str), "a text, or none (it is read from the file)", None
)


@pytree
class Contents:
    """A program and its arrays, by PyTorch's names."""

    __parametrised__: ClassVar[bool] = True  # a part of a model whose arrays are leaves

    trained: dict[str, Any]
    frozen: dict[str, Any]
    program: Program = static()


@parametrised
class Graph(Model):
    """A PyTorch module as data: `fl.models.from_torch`, or a file of `fedloom import-torch`.

    The model consists of the arrays that PyTorch would train (`requires_grad`), and begins with
    their values at the import. Frozen arrays are part of the network; they are neither sent nor
    averaged.

    Images are (height, width, channels) in fedloom's data and (channels, height, width) in PyTorch.
    Rows of the shape of the module's example are taken as they are. Rows of that shape with
    channels last, or flat, are rearranged at the input, and outputs that are images back again.
    """

    file: str = dataclasses.field(
        compare=False,
        metadata={"rule": _path, "doc": "the file that `fedloom import-torch` wrote"},
    )
    sha256: str | None = param(
        _digest, "the SHA-256 of the network, by which a changed file is refused", default=None
    )
    data: str | None = param(
        _carried, "the content of the file in base64, as jobs carry it", default=None
    )
    contents: Contents | None = unwritten("the program and its arrays, which are in the file")

    def __post_init__(self) -> None:
        if self.contents is not None:
            return
        if not self.file and self.data is None:
            raise _wrong(
                "file",
                "Graph: file must be the path of a network; got none. A network in memory is "
                "written by network = network.save('net.safetensors').",
            )
        try:
            read = graph_file.read(Path(self.file).expanduser()) if self.data is None else None
            contents = contents_of(*(read or _uncarried(self.file, self.data or "")))
        except FedloomError as error:
            raise _wrong("file", str(error)) from error
        found = digest(contents)
        if self.sha256 not in (None, found):
            raise _wrong(
                "sha256",
                f"Graph: {self.file} is not the network that is meant: its SHA-256 is {found}, and "
                f"must be {self.sha256}. Put the file back, or leave sha256 out.",
            )
        object.__setattr__(self, "contents", contents)
        object.__setattr__(self, "sha256", found)
        object.__setattr__(self, "data", None)  # it is in the contents now

    def __repr__(self) -> str:
        name = Path(self.file).name or "in memory"
        return f"Graph({name!r}, sha256={(self.sha256 or '')[:16]!r})"

    def carried(self) -> str:
        """The network as a text, for `data`."""
        held = self.held
        whole = graph_file.encoded(held.program, {**held.trained, **held.frozen})
        return base64.b64encode(whole).decode()

    @property
    def held(self) -> Contents:
        """The program and its arrays."""
        assert self.contents is not None
        return self.contents

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of one row, as PyTorch has it."""
        return self.held.program.row

    @property
    def norm_arrays(self) -> tuple[str, ...]:
        """The names of the trained arrays of batch and group norms, as they are in the model.

        Scales and shifts, and the statistics of batch norms where norm is "local": what FedBN
        leaves at each client.
        """
        program = self.held.program
        arrays = dict(program.inputs)
        used = {
            arrays[given.node]
            for node in program.nodes
            if node.operation in _NORMS
            for given in node.args
            if isinstance(given, Ref) and given.node in arrays
        }
        return tuple(name for name in program.trained if name in used)

    def init(self, key: Array, spec: Spec) -> Tree:
        """The trained arrays as they were imported, whatever the key."""
        self._channels_last(spec.features)
        return {name: jnp.asarray(a, spec.dtype) for name, a in self.held.trained.items()}

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs of the module, as in evaluation."""
        return self._outputs(arrays, x, run)

    def train_apply(self, arrays: Tree, x: Held, drawn: Drawn) -> Array:
        """The outputs with dropout, and with batch norms by their batch where norm is "local"."""
        if not in_training.differs(self.held.program, drawn):
            return self.apply(arrays, x)
        return self._outputs(arrays, x, functools.partial(in_training.outputs, drawn=drawn))

    @property
    def trains_otherwise(self) -> bool:
        """True with dropout, or with batch norms that use their batch."""
        program = self.held.program
        return in_training.draws(program) or in_training.local_norms(program)

    def _outputs(self, arrays: Tree, x: Held, compute: Callable[..., Array]) -> Array:
        program, turned = self.held.program, self._channels_last(tuple(x.shape[1:]))
        whole = jnp.issubdtype(x.dtype, jnp.integer)
        if whole and program.dtype == "float":
            x = jnp.asarray(x, jnp.result_type(*arrays.values()))
        elif not whole and program.dtype == "int":
            raise DataError(
                f"{self!r} takes rows of whole numbers, such as words; these rows are of type "
                f"{x.dtype}. Load a text, or import the module with an example of such rows."
            )
        dtype = jnp.result_type(*arrays.values())
        everything = dict(arrays)
        for name, array in self.held.frozen.items():
            floating = jnp.issubdtype(array.dtype, jnp.floating)
            everything[name] = jnp.asarray(array, dtype if floating else None)
        if turned:
            x = x.reshape(-1, *self.row[1:], self.row[0]).transpose(_CHANNELS_FIRST)
        outputs = compute(program, everything, x)
        return outputs.transpose(_CHANNELS_LAST) if turned and outputs.ndim == 4 else outputs

    def save(self, path: str | Path) -> "Graph":
        """Write the network to a file; returns the network with the name of that file."""
        held = self.held
        graph_file.write(Path(path), held.program, {**held.trained, **held.frozen})
        return dataclasses.replace(self, file=str(path))

    def _channels_last(self, features: tuple[int, ...]) -> bool:
        """Whether rows of this shape are images as fedloom has them, whole or flat."""
        if tuple(features) == self.row:
            return False
        images = (*self.row[1:], self.row[0])
        if len(self.row) == 3 and tuple(features) in (images, (math.prod(images),)):
            return True
        raise DataError(
            f"{self!r} takes rows of shape {images if len(self.row) == 3 else self.row}; these "
            f"have {tuple(features)}. Reshape x, or import the module with an example of the "
            f"shape of these rows."
        )


def _uncarried(name: str, data: str) -> tuple[Program, dict[str, np.ndarray]]:
    """A network that came as a text."""
    try:
        return graph_file.decoded(base64.b64decode(data, validate=True))
    except (ValueError, DataError) as error:
        said = str(error).rstrip(".")
        raise DataError(f"{name}: {said}. Import the module again.") from error


def _wrong(parameter: str, message: str) -> ParameterError:
    error = ParameterError(message)
    error.parameter = parameter
    return error


def contents_of(program: Program, arrays: dict[str, np.ndarray]) -> Contents:
    """A program with its arrays, each trained or frozen."""
    trained = {name: arrays[name] for name in program.trained}
    frozen = {n: a for n, a in arrays.items() if n not in trained}
    return Contents(trained, frozen, poolings_first(program))


def digest(contents: Contents) -> str:
    """The SHA-256 of a program and all of its arrays."""
    found = hashlib.sha256(contents.program.text.encode())
    for name, held in sorted({**contents.trained, **contents.frozen}.items()):
        array = np.asarray(held, order="C")
        found.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        found.update(array.data if array.size else b"")
    return found.hexdigest()


def graph_of(program: Program, arrays: dict[str, np.ndarray]) -> Graph:
    """A network from its program and arrays."""
    contents = contents_of(program, arrays)
    return Graph("", digest(contents), None, contents)
