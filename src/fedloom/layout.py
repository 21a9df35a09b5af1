"""How a vector in R^d folds into the named arrays of a model."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.types import Array, Tree

STATISTICS = ("running_mean", "running_var")  # what batch norms keep of the rows that they saw
FREE = ("bias", *STATISTICS)  # arrays that a penalty leaves alone


class Layout(NamedTuple):
    """The shapes of a model's arrays; algorithms see one vector, users see the arrays."""

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]  # the last part of each array's path: "weights", "bias", ...
    dtype: str
    dual: "Layout | None" = None  # in a saddle problem, how the dual vector folds

    @property
    def size(self) -> int:
        """The dimension d."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def full_names(self) -> tuple[str, ...]:
        """Each array's whole path, with dots: "dense.0.weights"; PyTorch's names as they are."""
        places = jax.tree.unflatten(self.treedef, range(len(self.shapes)))
        paths = jax.tree_util.tree_leaves_with_path(places)
        return tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths)

    def ravel(self, tree: Tree) -> Array:
        """The arrays of a model as one vector."""
        return _ravelled(self.treedef.flatten_up_to(tree))

    def unravel(self, vector: Array) -> Tree:
        """A vector as the arrays of a model."""
        # On the host there is nothing to compile.
        cut = _unravelled.__wrapped__ if isinstance(vector, np.ndarray) else _unravelled
        return jax.tree.unflatten(self.treedef, cut(vector, self.shapes))


# Outside of a program, each of these would be several for every array of a model. Inside, they
# leave no trace.
@functools.partial(jax.jit, inline=True)
def _ravelled(leaves: list[Array]) -> Array:
    if len(leaves) == 1:
        return jnp.reshape(leaves[0], -1)
    # Not `concatenate`: fused into a training step on a CPU it is chosen element by element,
    # which made a step of a small CNN twice as slow. And not zeros that XLA sees through: it
    # would pad the first array, and compute a bias's sum of slopes once for every number of the
    # vector; a perceptron of 200,000 numbers took forty times as long.
    zeros = jnp.zeros(sum(leaf.size for leaf in leaves), jnp.result_type(*leaves))
    vector, start = jax.lax.optimization_barrier(zeros), 0
    for leaf in leaves:
        vector = jax.lax.dynamic_update_slice(vector, jnp.reshape(leaf, -1), (start,))
        start += leaf.size
    return vector


@functools.partial(jax.jit, static_argnames="shapes", inline=True)
def _unravelled(vector: Array, shapes: tuple[tuple[int, ...], ...]) -> list[Array]:
    leaves, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        leaves.append(vector[start:stop].reshape(shape))
        start = stop
    return leaves


def layout_of(init: Callable[[], Tree]) -> Layout:
    """The layout of what `init` would return; nothing is computed."""
    paths, treedef = jax.tree_util.tree_flatten_with_path(jax.eval_shape(init))
    names = tuple(last_name(path) for path, _ in paths)
    dtype = str(jnp.result_type(*(leaf.dtype for _, leaf in paths)))
    return Layout(treedef, tuple(leaf.shape for _, leaf in paths), names, dtype)


def last_name(path: jax.tree_util.KeyPath) -> str:
    """The name of an array within its layer: the last part of its path."""
    return jax.tree_util.keystr(path[-1:], simple=True).rpartition(".")[2] if path else ""
