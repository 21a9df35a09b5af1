"""Whether a state is what it was: the same arrays, of the same shapes and types."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.errors import ProtocolError
from fedloom.types import Tree


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
    """Raise ProtocolError where a state is not what it was."""
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
