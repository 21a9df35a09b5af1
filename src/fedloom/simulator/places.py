"""Where the rows are while a run trains on them.

On every device, if they take no more than a part of its memory; otherwise divided over the devices,
if their shares do; otherwise in the host's memory or on its disk, from where each step gets its
batch. The numbers are the same: to the last bit if rows are divided, and to rounding if steps get
their batches from the host, which takes a different program.
"""

import contextlib
import dataclasses
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fedloom import divided_rows
from fedloom.divided_rows import source
from fedloom.errors import DataError
from fedloom.hub_view import LabelParty
from fedloom.on_disk import OnDisk, OnHost
from fedloom.population import Federation
from fedloom.pytrees import payload_bytes
from fedloom.rounds.parts import Plan
from fedloom.rows import ALIGNED, Rows, Store, narrowed, room_for
from fedloom.simulator import hosts
from fedloom.types import Tree

_OF_A_DEVICE = 0.5  # of its free memory; models and gradients need the rest
_OF_A_MACHINE = 0.25  # of its memory, over all devices that are its CPU


def placed(federation: Federation, plan: Plan) -> Federation:
    """The federation with its rows where there is room; tells the user if not on each device."""
    if isinstance(federation.fed, LabelParty):
        return federation  # columns of all people, which every product needs
    held = [store for group in federation.groups for store in (group.train, group.test) if store]
    on_disk = any(isinstance(store.rows.x, OnHost) for store in held)
    limit = room(on_disk)
    if limit is None or _bytes(held) <= limit:
        return _narrow(_in_memory(federation) if on_disk else federation)
    mesh = plan.mesh
    if mesh is not None and sum(divided_rows.share(s, mesh.size) for s in held) <= limit:
        tell(f"the rows are divided over the {mesh.size} devices: all do not fit on each")
        with hosts.all_or_none():
            return _each_store(federation, lambda store: divided_rows.divide(store, mesh))
    if any(not isinstance(store.rows.x, OnHost) for store in held):
        tell("the rows stay in the host's memory: they do not fit into the device's")
    else:
        tell("the rows stay on the disk: they do not fit into memory")
    return _each_store(federation, Store.streamed)


def put(tree: Tree, plan: Plan) -> Tree:
    """Put arrays on the device, or on all devices of the plan; shared arrays stay shared."""
    where = None if plan.mesh is None else NamedSharding(plan.mesh, PartitionSpec())
    known: dict[int, Any] = {}

    def made(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_replicated:
            return leaf  # rows that are divided
        if where is not None and hosts.several() and isinstance(leaf, np.ndarray):
            # As `device_put`, which would send the rows around to compare them once more.
            array = np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
            return jax.make_array_from_callback(array.shape, where, lambda part: array[part])
        if where is not None and hosts.several() and isinstance(leaf, float):
            # `device_put` compares the processes' numbers, rounded to the precision, with this one.
            leaf = jnp.asarray(leaf)  # rounded, and as one process has it: it takes on other types
        if isinstance(leaf, np.ndarray) and jax.default_backend() == "cpu":
            leaf = _aligned(leaf)
        return jax.device_put(leaf, where)

    def once(leaf: Any) -> Any:
        if id(leaf) not in known:
            known[id(leaf)] = made(leaf)
        return known[id(leaf)]

    return jax.tree.map(once, tree)


def room(on_disk: bool) -> int | None:
    """The bytes that rows may take on one device; None on a CPU, which has them in memory."""
    free = free_memory()
    if free is not None:
        return int(_OF_A_DEVICE * free)
    if not (on_disk or jax.process_count() > 1):
        return None
    return int(hosts.least(_OF_A_MACHINE * memory() / jax.local_device_count()))


def free_memory() -> int | None:
    """The bytes that are free on the first device; None where it does not say, as a CPU.

    Of several processes, that which has the least decides for all.
    """
    stats = jax.local_devices()[0].memory_stats() or {}
    free = float(stats.get("bytes_limit", math.inf)) - float(stats.get("bytes_in_use", 0))
    if jax.distributed.is_initialized():
        free = hosts.least(free)
    return None if math.isinf(free) else int(free)


def memory() -> float:
    """The bytes of memory that this machine has; 0 where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 0.0


def alike(federation: Federation) -> dict[str, Any]:
    """What processes compare of rows on the disk, since none reads all: sizes and some rows."""
    told: dict[str, Any] = {}
    for i, group in enumerate(federation.groups):
        for kind in ("train", "test"):
            store = getattr(group, kind)
            array = None if not isinstance(store, Store) else source(store.rows.x)
            if isinstance(array, OnDisk):
                some = np.linspace(0, len(array) - 1, 64).astype(np.int64)
                told[f"{kind} rows on the disk, {i}"] = (str(array.shape), array.read(some))
    return told


@contextlib.contextmanager
def faults_told() -> Iterator[None]:
    """Raise errors about rows on the disk as they are, without the text of JAX around them."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        _, found, said = str(error).rpartition(f"{DataError.__name__}: ")
        if not found:
            raise
        raise DataError(said.splitlines()[0]) from None


def tell(words: str) -> None:
    """Print a line on how this run differs from the usual; of several processes only the first."""
    if hosts.leads():
        print(words, file=sys.stderr)


def _each_store(federation: Federation, change: Callable[[Store], Store]) -> Federation:
    """Change the rows of all groups."""
    groups = [
        dataclasses.replace(
            group,
            train=change(group.train),
            test=None if group.test is None else change(group.test),
        )
        for group in federation.groups
    ]
    return dataclasses.replace(federation, groups=tuple(groups))


def _in_memory(federation: Federation) -> Federation:
    """The federation with rows that were on the disk read; those that groups share, once."""
    read: dict[tuple[int, int], np.ndarray] = {}

    def held(store: Store) -> Store:
        if not isinstance(store.rows.x, OnHost):
            return store
        array, count = source(store.rows.x), len(store.rows.y)  # which is padded
        if not isinstance(array, OnDisk):
            return store
        if (id(array), count) not in read:
            made = room_for((count, *array.shape[1:]), array.dtype)
            array.read_into(made[: len(array)], 0)
            read[id(array), count] = made
        return dataclasses.replace(store, rows=Rows(read[id(array), count], store.rows.y))

    with hosts.all_or_none():
        return _each_store(federation, held)


def _narrow(federation: Federation) -> Federation:
    """The federation with rows of whole numbers in a byte each; what groups share stays shared."""
    known: dict[int, Any] = {}

    def held(store: Store) -> Store:
        x = store.rows.x
        if id(x) not in known:
            known[id(x)] = narrowed(np.asarray(x))
        return dataclasses.replace(store, rows=Rows(known[id(x)], store.rows.y))

    return _each_store(federation, held)


def _bytes(held: list[Store]) -> int:
    """What all rows take on a device."""
    arrays = {id(a): a for store in held for a in map(source, store.rows)}
    return sum(a.nbytes for a in arrays.values()) + payload_bytes([s.domains for s in held])


def _aligned(array: np.ndarray) -> np.ndarray:
    """The array where the devices of a CPU take it as it lies, or a copy that begins so."""
    if array.ctypes.data % ALIGNED == 0:
        return array
    made = room_for(array.shape, array.dtype)
    made[...] = array
    return made
