"""Rows divided over devices: each holds those of a part of the clients, in turn.

With k clients and H devices, device h has the clients from h c to (h + 1) c - 1, where c is k / H,
rounded up. If all clients are asked, each device computes its own, and no row moves. The clients of
a drawn cohort are computed in equal numbers by all devices, as if every device had all rows; first,
their rows are sent to the device that computes them. Rows are only moved, not added up, so the
numbers are the same, to the last bit, as with all rows on every device.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedloom.draws import Domain
from fedloom.on_disk import OnDisk, OnHost
from fedloom.rows import Rows, Store, room_for
from fedloom.types import Array

AXIS = "clients"  # of the mesh


def share(store: Store, devices: int) -> int:
    """The bytes that the rows of one device take."""
    block = _layout(store, devices)[1]
    return block * sum(_row_bytes(source(array)) for array in store.rows)


def divide(store: Store, mesh: Mesh) -> Store:
    """The same rows over the devices of a mesh; a process reads those of its own devices alone."""
    places, block = _layout(store, mesh.size)
    each, sizes, begins = _each(store, mesh.size), store.sizes, np.asarray(store.offsets)
    where = NamedSharding(mesh, PartitionSpec(AXIS))

    def over_devices(array: np.ndarray | OnDisk) -> jax.Array:
        def of_device(index: Any) -> np.ndarray:
            first = (index[0].start or 0) // block * each
            made = room_for((block, *array.shape[1:]), array.dtype)
            own = np.arange(first, min(first + each, len(sizes)))
            apart = np.flatnonzero(begins[own[1:]] != (begins + sizes)[own[:-1]]) + 1
            for run in np.split(own, apart) if len(own) else ():  # clients with rows in turn
                here = slice(places[run[0]], places[run[-1]] + sizes[run[-1]])
                _copy(array, int(begins[run[0]]), made[here])
            return made

        shape = (mesh.size * block, *array.shape[1:])
        return jax.make_array_from_callback(shape, where, of_device)

    rows = Rows(*(over_devices(source(array)) for array in store.rows))
    offsets = places.astype(np.int32)
    return dataclasses.replace(store, rows=rows, offsets=offsets, each=each)


def fetched(store: Store, everyone: Array, devices: int) -> Store:
    """On one device, the rows of the clients that it computes, from the devices that have them.

    Args:
        store: The rows that this device has, and where those of all clients begin.
        everyone: The clients that are computed, as many on each device, one device after the other.
        devices: How many there are.
    """
    count = len(everyone) // devices
    here = jax.lax.axis_index(AXIS)
    own = jax.lax.dynamic_slice_in_dim(everyone, here * count, count)
    places = jnp.asarray(store.offsets)[everyone][:, None] + jnp.arange(store.longest)

    def moved(held: Array) -> Array:
        # Every device sends what it has in the place of each client. What came from the client's
        # own device is right.
        some = held[places].reshape(devices, count, store.longest, *held.shape[1:])
        got = jax.lax.all_to_all(some, AXIS, 0, 0)
        right = got[own // store.each, jnp.arange(count)]
        return right.reshape(count * store.longest, *held.shape[1:])

    rows = Rows(*(moved(jnp.asarray(held)) for held in store.rows))
    domains = Domain(*(jnp.asarray(entry)[own] for entry in store.domains))
    begins = jnp.arange(count, dtype=np.int32) * np.int32(store.longest)
    return Store(rows, begins, domains, store.shortest, store.longest)


def specs(store: Store | None) -> Any:
    """How the arrays of a store lie on the devices: its rows divided, all else everywhere."""
    if store is None:
        return None
    whole, divided = PartitionSpec(), PartitionSpec(AXIS)
    rest = jax.tree.map(lambda _: whole, store)
    return dataclasses.replace(rest, rows=Rows(divided, divided)) if store.each else rest  # type: ignore[arg-type]


def source(array: Any) -> np.ndarray | OnDisk:
    """Rows as they are before a device has them."""
    return array.kept.array if isinstance(array, OnHost) else array


def _copy(array: np.ndarray | OnDisk, begin: int, made: np.ndarray) -> None:
    """Fill an array with the rows from a place on."""
    if isinstance(array, OnDisk):
        array.read_into(made, begin)
    else:
        made[:] = array[begin : begin + len(made)]


def _each(store: Store, devices: int) -> int:
    return -(-len(store.sizes) // devices)


def _layout(store: Store, devices: int) -> tuple[np.ndarray, int]:
    """Where each client's rows begin on its device, and how many rows a device has room for."""
    sizes, each = store.sizes, _each(store, devices)
    ends = np.cumsum(sizes)
    firsts = np.arange(len(sizes)) // each * each
    places = ends - sizes - (ends - sizes)[firsts]
    # A slice of the longest client's length must stay inside, as in `rows.store`.
    return places, int(places.max(initial=0)) + store.longest


def _row_bytes(array: np.ndarray | OnDisk) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
