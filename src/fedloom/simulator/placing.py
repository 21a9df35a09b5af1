"""Where rows and states lie: in how many bytes, on the host or on devices, and once or for each."""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fedloom.hub_view import LabelParty
from fedloom.population import Federation
from fedloom.pytrees import payload_bytes
from fedloom.rounds.parts import Plan
from fedloom.rows import Rows, Store, narrowed
from fedloom.simulator import hosts, lanes
from fedloom.types import Tree

_ROOM_FOR_ROWS = 0.5  # of a device's free memory; models and gradients need the rest
_ALIGNED = 64  # bytes; a CPU's devices share an array that begins at a multiple, and copy others


def prepared(federation: Federation) -> Federation:
    """The federation with rows in as few bytes as hold them, on the host where no device can."""
    if isinstance(federation.fed, LabelParty):  # columns of all people, which every product needs
        return federation
    return _within_memory(_narrow(federation))


def _narrow(federation: Federation) -> Federation:
    """Rows of whole numbers in a byte each; groups that share rows go on sharing them."""
    known: dict[int, Any] = {}

    def of(held: Store) -> Store:
        x = held.rows.x
        if id(x) not in known:
            known[id(x)] = narrowed(np.asarray(x))
        return dataclasses.replace(held, rows=Rows(known[id(x)], held.rows.y))

    return _with_rows(federation, of)


def _within_memory(federation: Federation) -> Federation:
    """The federation, with rows that stay on the host where a device has no room for them."""
    free = lanes.free_memory()
    if free is None or payload_bytes(federation.groups) <= _ROOM_FOR_ROWS * free:
        return federation
    if hosts.leads():
        told = "the rows stay in the host's memory: they do not fit into the device's"
        print(told, file=sys.stderr)
    return _with_rows(federation, Store.streamed)


def _with_rows(federation: Federation, change: Callable[[Store], Store]) -> Federation:
    """The federation with something done to what each group holds."""
    groups = [
        dataclasses.replace(
            group,
            train=change(group.train),
            test=None if group.test is None else change(group.test),
        )
        for group in federation.groups
    ]
    return dataclasses.replace(federation, groups=tuple(groups))


def _aligned(array: np.ndarray) -> np.ndarray:
    """The array where devices of a CPU take it as it lies, instead of a copy for each of them."""
    if array.ctypes.data % _ALIGNED == 0:
        return array
    room = np.empty(array.nbytes + _ALIGNED, np.uint8)
    start = -room.ctypes.data % _ALIGNED
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def put_on_devices(tree: Tree, plan: Plan) -> Tree:
    """Put arrays on the device, or on all devices of the plan; shared arrays stay shared."""
    where = None if plan.mesh is None else NamedSharding(plan.mesh, PartitionSpec())
    placed: dict[int, Any] = {}

    def made(leaf: Any) -> Any:
        if where is not None and hosts.several() and isinstance(leaf, np.ndarray):
            # As `device_put`, which would send the rows around to compare them once more.
            array = np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
            return jax.make_array_from_callback(array.shape, where, lambda part: array[part])
        if isinstance(leaf, np.ndarray) and jax.default_backend() == "cpu":
            leaf = _aligned(leaf)
        return jax.device_put(leaf, where)

    def put(leaf: Any) -> Any:
        if id(leaf) not in placed:
            placed[id(leaf)] = made(leaf)
        return placed[id(leaf)]

    return jax.tree.map(put, tree)
