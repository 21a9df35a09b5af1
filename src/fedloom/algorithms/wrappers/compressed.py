"""Compressed replies for any method: clients send less, the hub reads it back.

    client    runs its method; each array of its reply becomes Q(array)
    hub       restores the arrays before the method sees them

A model is one array, the vector of all its numbers, and not one for each of its layers.

Only what clients send is compressed: it differs from client to client, and uplinks are the slower
direction. Methods that send changes of models, such as FedAvg and SCAFFOLD, keep their
fixed points in expectation with an unbiased compressor. A biased one is used as it is, without
error feedback.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedloom.algorithms.wrappers.base import Wrapper, check_horizontal
from fedloom.errors import ParameterError
from fedloom.operators.compressors import Compressor
from fedloom.oracles import ClientOracle
from fedloom.parameters import instance_of, param
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Replies, Round, algorithm, relay
from fedloom.pytrees import pytree, static
from fedloom.types import Array, Tree


@pytree
class CompressedArray:
    """A compressed array, with the shape and type that it had."""

    message: Tree
    shape: tuple[int, ...] = static()
    dtype: str = static()


@algorithm
class Compressed(Wrapper):
    """A method whose clients' replies are compressed."""

    inner: Algorithm = param(instance_of(Algorithm), "the method")
    compressor: Compressor = param(instance_of(Compressor), "how replies are compressed")

    def __post_init__(self) -> None:
        check_horizontal(self)
        if self.compressor.shared:
            raise ParameterError(
                f"Compressed: compressor must send the seed of its draws, because hub and clients "
                f"share none; got {self.compressor!r}. Set shared=False."
            )

    def opening(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The method's, with replies restored."""
        return (yield from relay(self.inner.opening(hub, fed, key), incoming=self._restored))

    def round(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The method's, with replies restored."""
        return (yield from relay(self.inner.round(hub, fed, key), incoming=self._restored))

    def perform(
        self, method: str, client: Tree, message: Tree, f: ClientOracle, key: Array, /
    ) -> tuple[Tree, Tree]:
        """Run the method's own, and compress what it answers."""
        client, reply = self.inner.perform(method, client, message, f, key)
        leaves, structure = jax.tree.flatten(reply)
        keys = jax.random.split(jax.random.fold_in(key, 1), max(1, len(leaves)))
        packed = [self._packed(leaf, k) for leaf, k in zip(leaves, keys, strict=False)]
        return client, jax.tree.unflatten(structure, packed)

    def _packed(self, leaf: Array, key: Array) -> Tree:
        """The compressed array; scalars and integer arrays are sent uncompressed."""
        leaf = jnp.asarray(leaf)
        if leaf.ndim == 0 or not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        return CompressedArray(self.compressor.compress(leaf, key), leaf.shape, str(leaf.dtype))

    def _restored(self, replies: Replies) -> Replies:
        def restore(entry: Any) -> Array:
            if not isinstance(entry, CompressedArray):
                return entry
            like = jax.ShapeDtypeStruct(entry.shape, entry.dtype)
            one: Callable[[Tree], Array] = lambda m: self.compressor.restore(m, like)  # noqa: E731
            return jax.vmap(one)(entry.message)

        is_packed = lambda entry: isinstance(entry, CompressedArray)  # noqa: E731
        return dataclasses.replace(
            replies, value=jax.tree.map(restore, replies.value, is_leaf=is_packed)
        )
