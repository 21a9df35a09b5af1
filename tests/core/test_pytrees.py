"""Structures tell classes apart, so that `jit` never runs the program of another class."""

import importlib
import itertools
import pkgutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import fedloom
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.pytrees import pytree, static


def every_module():
    for module in pkgutil.walk_packages(fedloom.__path__, "fedloom."):
        if "flare" not in module.name:  # nothing compiled there; it needs the extra `federate`
            yield importlib.import_module(module.name)


def pytree_classes():
    """The classes of the package that JAX takes apart, each with a node whose fields are all 0."""
    classes = {
        cls
        for module in every_module()
        for cls in vars(module).values()
        if isinstance(cls, type) and cls.__module__.startswith("fedloom")
    }
    for cls in sorted(classes, key=lambda cls: f"{cls.__module__}.{cls.__qualname__}"):
        if hasattr(cls, "_fields"):
            yield cls, cls(*[0.0] * len(cls._fields))
        elif hasattr(cls, "__dataclass_fields__"):
            node = object.__new__(cls)
            vars(node).update(dict.fromkeys(cls.__dataclass_fields__, 0.0))
            if not jax.tree_util.all_leaves([node]):
                yield cls, node


def test_the_structures_of_all_classes_differ_pairwise():
    nodes = list(pytree_classes())
    found = {cls for cls, _ in nodes}
    assert {entry.cls for entry in CATALOGUE.values()} <= found
    alike = [
        f"{a.__qualname__} and {b.__qualname__}"
        for (a, x), (b, y) in itertools.combinations(nodes, 2)
        if jax.tree.structure(x) == jax.tree.structure(y)
    ]
    assert not alike


_LOOK_ALIKES = """
import jax
from fedloom.parameters import parametrised
from fedloom.pytrees import pytree, static

def make(i):
    if i % 2:
        @pytree
        class LookAlike:
            x: float
            on: object = static(default=None)
    else:
        @parametrised
        class LookAlike:
            x: float
            on: object = None
    LookAlike.number = float(i)
    return LookAlike

classes = [make(i) for i in range(100)]
program = jax.jit(lambda node: node.x + type(node).number)
outcome = [float(program(cls(0.0))) for cls in classes]
assert outcome == [float(i) for i in range(100)], outcome
"""


def test_a_hundred_classes_that_look_alike_each_get_their_own_program():
    subprocess.run([sys.executable, "-c", _LOOK_ALIKES], check=True, timeout=600)


@pytree
class Pair:
    left: object
    right: object
    mode: object = static(default=None)


def test_static_values_of_different_types_are_different_structures():
    modes = [1, True, 1.0, "1", (1,), None]
    structures = [jax.tree.structure(Pair(0.0, 0.0, mode)) for mode in modes]
    for a, b in itertools.combinations(structures, 2):
        assert a != b


def test_taken_apart_and_put_together_again():
    pair = Pair(np.arange(3), {"a": 1.0}, mode="fast")
    leaves, structure = jax.tree.flatten(pair)
    assert [np.shape(leaf) for leaf in leaves] == [(3,), ()]
    again = jax.tree.unflatten(structure, leaves)
    assert again.left is pair.left and again.right == pair.right and again.mode == "fast"


def test_paths_name_the_fields():
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(Pair(1.0, {"a": 2.0}))]
    assert [jax.tree_util.keystr(p, simple=True, separator="/") for p in paths] == [
        "left",
        "right/a",
    ]


def test_fields_cannot_be_set():
    with pytest.raises(AttributeError):
        Pair(1.0, 2.0).left = 3.0
