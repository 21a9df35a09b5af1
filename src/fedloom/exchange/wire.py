"""Messages as bytes: named arrays, exact in dtype and shape, and nothing that can be executed.

A message is a pytree of arrays. Its arrays are named by the fields of the named tuples, and sent in
the safetensors format. The receiver knows from the algorithm which names, shapes and dtypes must
come, and refuses anything else. In a file the same bytes carry a checksum, and plain facts about
the arrays.
"""

import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from fedloom import checksums
from fedloom.errors import NotFiniteError, WireError
from fedloom.files import write_bytes
from fedloom.types import Tree

_DTYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(bool),
}
_KEY = "fedloom"  # of a file's metadata; one key only, because safetensors orders keys at random
_HEADER_ALLOWANCE = 4096  # bytes for names, shapes and padding, for each array


def named(tree: Tree) -> dict[str, np.ndarray]:
    """The arrays of a pytree, by the path of fields that leads to each."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def from_named(arrays: dict[str, np.ndarray], like: Tree) -> Tree:
    """Put named arrays back into the structure of `like`; every name, shape and dtype must fit."""
    paths, treedef = jax.tree_util.tree_flatten_with_path(like)
    expected = {_name(path): leaf for path, leaf in paths}
    if arrays.keys() != expected.keys():
        unknown = ", ".join(sorted(arrays.keys() - expected.keys())) or "none"
        missing = ", ".join(sorted(expected.keys() - arrays.keys())) or "none"
        raise WireError(
            f"the arrays must be {', '.join(sorted(expected)) or 'none'}; missing: {missing}, "
            f"unexpected: {unknown}. Both ends must run the same method with the same settings."
        )
    for name, leaf in expected.items():
        got = arrays[name]
        if tuple(got.shape) != tuple(leaf.shape) or got.dtype != leaf.dtype:
            raise WireError(
                f"{name} must be {leaf.dtype} of shape {tuple(leaf.shape)}; got {got.dtype} of "
                f"shape {tuple(got.shape)}. Both ends must run the same method on the same columns."
            )
    return jax.tree.unflatten(treedef, [arrays[_name(path)] for path, _ in paths])


def encode(tree: Tree) -> bytes:
    """A message as bytes."""
    return save(named(tree))


def decode(data: bytes, like: Tree, *, finite: bool = False) -> Tree:
    """Bytes as the message that is expected: the structure, shapes and dtypes of `like`.

    Args:
        data: What came from the network, from anyone.
        like: Arrays, or their shapes and dtypes.
        finite: Whether NaN and infinity are refused.
    """
    leaves = jax.tree.leaves(like)
    payload = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    limit = payload + _HEADER_ALLOWANCE * (len(leaves) + 1)
    if not isinstance(data, bytes):
        raise WireError(f"a message must be bytes; got {type(data).__name__}. Check who sends it.")
    if len(data) > limit:
        raise WireError(
            f"a message of {len(data)} bytes exceeds the {limit} that this exchange may take. "
            f"Both ends must run the same method on the same columns."
        )
    tree = from_named(read(data), like)
    if finite:
        _check_finite(named(tree))
    return tree


def read(data: bytes) -> dict[str, np.ndarray]:
    """The named arrays in bytes of the safetensors format, in the order of their names."""
    try:
        arrays = {name: _array(entry) for name, entry in deserialize(data)}
        return dict(sorted(arrays.items()))  # safetensors gives them in a random order
    except (SafetensorError, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise WireError(
            f"these bytes are not a message: {error}. Send them again, or check who sends them."
        ) from error


def write_file(
    path: Path, tree: Tree, facts: dict[str, Any] | None = None, *, shared: bool = False
) -> None:
    """Write the arrays of a pytree to a file, by name, and what is not an array."""
    about = f"{checksums.BLANK} {json.dumps(facts or {})}"
    data = save(named(tree), metadata={_KEY: about})
    write_bytes(path, checksums.seal(data), shared=shared)


def read_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file by name, and the facts."""
    data = checksums.unseal(path)
    with checksums.understood(path):
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about: str = header["__metadata__"][_KEY]
        return read(data), json.loads(about.partition(" ")[2])


def finite(arrays: dict[str, np.ndarray]) -> bool:
    """Whether no array holds NaN or infinity."""
    return all(map(_is_finite, arrays.values()))


def _check_finite(arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if not _is_finite(array):
            raise NotFiniteError(
                f"{name} must hold finite numbers; it has NaN or infinity. "
                f"Lower the step size, or look at the sender's data."
            )


def _is_finite(array: np.ndarray) -> bool:
    if not jnp.issubdtype(array.dtype, jnp.floating):  # knows bfloat16, which NumPy does not
        return True
    return bool(np.isfinite(array).all())


def _array(entry: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _name(path: jax.tree_util.KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/") or "value"
