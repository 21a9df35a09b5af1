"""Classes that JAX cannot tell apart: their structures compare equal though the classes differ.

`jit` keeps programs by structure, so that such classes may get each other's programs. Whether they
do depends on the version and on chance; that the structures are equal does not.
"""

import dataclasses
import importlib
import itertools
import pkgutil
from collections.abc import Iterable

import jax

import fedloom


def pytree_classes() -> Iterable[type]:
    """The dataclasses of fedloom that JAX takes apart."""
    found: dict[type, None] = {}
    for module in pkgutil.walk_packages(fedloom.__path__, "fedloom."):
        if "flare" not in module.name:  # nothing is compiled there; it needs the extra `federate`
            for cls in vars(importlib.import_module(module.name)).values():
                if isinstance(cls, type) and dataclasses.is_dataclass(cls) and is_pytree(cls):
                    found[cls] = None
    return list(found)


def blank(cls: type) -> object:
    """An instance whose fields are all zero."""
    node = object.__new__(cls)
    vars(node).update(dict.fromkeys((field.name for field in dataclasses.fields(cls)), 0.0))
    return node


def is_pytree(cls: type) -> bool:
    """Whether JAX takes instances apart."""
    return not jax.tree_util.all_leaves([blank(cls)])


def look_alikes(classes: Iterable[type]) -> list[tuple[type, type]]:
    """The pairs whose structures compare equal."""
    nodes = [(cls, jax.tree.structure(blank(cls))) for cls in classes]
    return [(a, b) for (a, x), (b, y) in itertools.combinations(nodes, 2) if x == y]
