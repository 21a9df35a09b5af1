"""Pytrees: the one place where classes become JAX pytrees, and comparisons of trees.

`jit` keeps compiled programs by the structure of their arguments. In jaxlib 0.10 to 0.12, classes
registered by `jax.tree_util.register_dataclass` have structures that compare equal if their fields
do, and the caches of jaxlib 0.10 then hand out the program of another class now and then. Here the
class is a part of the structure, so that no two classes can share a program.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.tree_util import GetAttrKey

from fedloom.errors import ProtocolError
from fedloom.types import Array, Tree

T = TypeVar("T")


def static(**options: Any) -> Any:
    """A field of a `pytree` that is not an array but a part of its structure."""
    return dataclasses.field(metadata={"static": True}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and a pytree whose fields are leaves, but for static ones."""
    made: Any = dataclasses.dataclass(frozen=True, repr=False)(cls)
    made.__repr__ = _repr
    fields = dataclasses.fields(made)
    register(made, [field.name for field in fields if not field.metadata.get("static", False)])
    return made


def _repr(node: Any) -> str:
    """The `repr` of an object without the numbers in its arrays, which may be private data."""
    fields = [field.name for field in dataclasses.fields(node) if field.repr]
    told = [f"{name}={in_short(getattr(node, name))}" for name in fields]
    return f"{type(node).__name__}({', '.join(told)})"


def in_short(value: Any) -> str:
    """An array as its dtype and shape; anything else as it is."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if type(value) in (tuple, list):
        return f"({', '.join(map(in_short, value))})"
    return repr(value)


def register(cls: Any, leaves: Sequence[str]) -> None:
    """Register a dataclass as a pytree with these fields as leaves; the others are static."""
    names = tuple(leaves)
    others = tuple(field.name for field in dataclasses.fields(cls) if field.name not in names)
    keys = tuple(map(GetAttrKey, names))
    # The class stands first, so that structures of two classes differ. A static value is told
    # apart by its type as well, because Python has 1 == True == 1.0.
    Structure = tuple[type, tuple[Any, ...], tuple[type, ...]]

    def structure(node: Any) -> Structure:
        values = tuple([getattr(node, name) for name in others])
        return cls, values, tuple(map(type, values))

    def flatten(node: Any) -> tuple[tuple[Any, ...], Structure]:
        return tuple([getattr(node, name) for name in names]), structure(node)

    def flatten_with_keys(node: Any) -> tuple[Iterable[tuple[GetAttrKey, Any]], Structure]:
        children, aux = flatten(node)
        return list(zip(keys, children, strict=True)), aux

    def unflatten(aux: Structure, children: Iterable[Any]) -> Any:
        # Not by the constructor: its rules are for what a user writes, and a leaf may be anything.
        node = object.__new__(cls)
        vars(node).update(zip(others, aux[1], strict=True))
        vars(node).update(zip(names, children, strict=True))
        return node

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def to_host(tree: Any) -> Any:
    """Device arrays as NumPy arrays, whole in every process of a run of several."""

    def whole(leaf: Any) -> np.ndarray:
        divided = isinstance(leaf, jax.Array) and not leaf.is_fully_replicated
        if divided and not leaf.is_fully_addressable:
            leaf = multihost_utils.process_allgather(leaf, tiled=True)
        return np.asarray(leaf)

    return jax.tree.map(whole, tree)


def payload_bytes(tree: Any) -> int:
    """How many bytes the arrays of a message take on the wire."""
    leaves = jax.tree.leaves(tree)
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in map(_typed, leaves))


def abstract(shape: tuple[int, ...], dtype: Any) -> Array:
    """A shape that stands for an array in a container, for `jax.eval_shape`.

    It has no numbers, so that no type of arrays is true of it; but only containers that are traced
    and never computed with hold one, and a wider type would be a burden on all who compute.
    """
    return cast(Array, jax.ShapeDtypeStruct(shape, dtype))


class Unlike(NamedTuple):
    """The first place at which two trees differ."""

    array: str  # as in "hub.model"
    before: str  # its type and shape, or "nothing"
    after: str


def unlike(before: Tree, after: Tree, root: str) -> Unlike | None:
    """Where structures, shapes or types differ; None where they are the same."""
    old, new = _types(before, root), _types(after, root)
    for name in old | new:
        if old.get(name) != new.get(name):
            return Unlike(name, old.get(name, "nothing"), new.get(name, "nothing"))
    structures: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
    if structures[0] != structures[1]:
        return Unlike(root, *map(str, structures))
    return None


def check_alike(message: str, before: Tree, after: Tree, root: str) -> None:
    """Raise ProtocolError if a state has changed its structure, shapes or types."""
    found = unlike(before, after, root)
    if found is not None:
        raise ProtocolError(
            f"{message}; {found.array} was {found.before} and is {found.after}. Return the same "
            f"arrays, with the same shapes and types."
        )


def named(tree: Tree, root: str = "") -> dict[str, Any]:
    """The arrays of a tree by their paths, as in "hub.model"."""

    def name(path: Any) -> str:
        inside = jax.tree_util.keystr(path, simple=True, separator=".")
        return ".".join(part for part in (root, inside) if part) or "value"

    return {name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def shapes(tree: Tree, root: str = "") -> str:
    """The types and shapes of a tree's arrays, in a line."""
    return ", ".join(f"{name} {kind}" for name, kind in _types(tree, root).items()) or "nothing"


def _types(tree: Tree, root: str) -> dict[str, str]:
    def type_of(leaf: Any) -> str:
        return f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}"

    return {name: type_of(leaf) for name, leaf in named(tree, root).items()}


def _typed(leaf: Any) -> Any:
    return leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)


def plain(value: Any) -> Any:
    """The same, with Python's numbers for NumPy's, which files cannot hold, within lists too."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):  # no named tuples
        return type(value)(map(plain, value))
    return {k: plain(v) for k, v in value.items()} if type(value) is dict else value
