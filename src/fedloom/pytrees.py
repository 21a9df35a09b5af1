"""The one place where classes become JAX pytrees.

`jit` keeps compiled programs by the structure of their arguments. In jaxlib 0.10 to 0.12, classes
registered by `jax.tree_util.register_dataclass` have structures that compare equal if their fields
do, and the caches of jaxlib 0.10 then hand out the program of another class now and then. Here the
class is a part of the structure, so that no two classes can share a program.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey

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
    """What an object is, without the numbers in its arrays, which may be somebody's data."""
    told = [f"{f.name}={in_short(getattr(node, f.name))}" for f in dataclasses.fields(node)]
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
    """Device arrays as NumPy arrays."""
    return jax.tree.map(np.asarray, tree)


def payload_bytes(tree: Any) -> int:
    """How many bytes the arrays of a message take on the wire."""
    leaves = jax.tree.leaves(tree)
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in map(_typed, leaves))


def _typed(leaf: Any) -> Any:
    return leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)
