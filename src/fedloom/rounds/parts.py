"""A cohort in parts: clients side by side, one part after the other, and parts over devices.

How many clients a part has depends on the size of the cohort and on the lanes of the plan, never on
devices or threads. On a CPU a part is computed behind a branch that XLA cannot look into, and so
are the results gathered: however parts are divided, the very same kernels run on the very same
numbers, and the same bits come out. Left alone, XLA fuses what stands next to each other, and what
is fused may round differently.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedloom.divided_rows import AXIS, fetched, specs
from fedloom.population import Group, Party
from fedloom.rounds.crew import Crew
from fedloom.types import Array, Held, Tree


class Plan(NamedTuple):
    """How clients are mapped; static, a part of the compiled program."""

    lanes: int | None  # how many clients are computed side by side; None: the whole cohort
    mesh: Mesh | None  # devices over which the cohort is divided; None: one device
    crew: Crew | None = None  # threads over which it is divided; None: one thread


def map_group(
    group: Group | Party, work: Callable[..., Tree], plan: Plan, common: Tree, *per_client: Tree
) -> Tree:
    """Apply `work(common, f, measured, *rows)` to clients: side by side, in parts, over devices.

    What all clients see is handed over as `common`: an array that `work` took from around it would
    belong to all devices together, and `zeros_like` of it could not be made on one of them. The
    first of `per_client` holds the clients' positions in the group; `measured` are the rows on
    which a client is measured, for who asks all clients at once.
    """
    size = per_client[0].shape[0]
    count = number_of_parts(size, plan.lanes)

    def here(group: Group | Party, common: Tree, *per_client: Tree) -> Tree:
        def one(index: Array, *rest: Tree) -> Tree:
            measured = group.measured.client(index) if isinstance(group, Group) else None
            return work(common, group.objective(index), measured, *rest)

        def part(*per_client: Tree) -> Tree:
            if per_client[0].shape[0] > 1:
                return jax.vmap(one)(*per_client)
            # Nothing to map: plain kernels, without a batch axis.
            out = one(*jax.tree.map(lambda a: a[0], per_client))
            return jax.tree.map(lambda a: jnp.asarray(a)[None], out)

        if count == 1:
            return part(*per_client)
        return _one_after_the_other(group, part, -(-size // count), plan.crew, per_client)

    rows_divided = isinstance(group, Group) and group.train.each > 0
    if plan.mesh is None or (size < plan.mesh.size and not rows_divided):
        return here(group, common, jnp.asarray(per_client[0]), *per_client[1:])
    return _over_devices(plan.mesh, here, group, common, *per_client)


def number_of_parts(size: int, lanes: int | None) -> int:
    """Into how many parts so many clients fall, of no more than `lanes` each.

    Parts are alike, the last one filled up with clients whose results are not used; up to twice as
    many parts as are needed are taken where that leaves fewer of these.
    """
    if lanes is None or lanes >= size:
        return 1
    least = -(-size // lanes)
    return min(range(least, 2 * least), key=lambda count: count * -(-size // count))


def _one_after_the_other(
    group: Group | Party,
    part: Callable[..., Tree],
    side_by_side: int,
    crew: Crew | None,
    per_client: Tree,
) -> Tree:
    """Map over clients in parts of so many."""
    size = per_client[0].shape[0]
    count = -(-size // side_by_side)
    parts = jax.tree.map(lambda a: _parts(a, count, side_by_side), per_client)
    if crew is not None and isinstance(group, Group):
        out = _by_crew(crew, group, part, parts)
    else:
        out = jax.lax.map(lambda some: _apart(group, part, *some), parts)

    def in_order(out: Tree) -> Tree:
        return jax.tree.map(lambda a: a.reshape(count * side_by_side, *a.shape[2:])[:size], out)

    return _apart(group, in_order, out)


def _by_crew(crew: Crew, group: Group, part: Callable[..., Tree], parts: Tree) -> Tree:
    """Compute the parts that are this member's, and take those of the others from them."""
    count, rank = parts[0].shape[0], jnp.asarray(group.rank)
    part = jax.jit(part, inline=True)  # traced once for both uses
    shapes = jax.eval_shape(part, *jax.tree.map(lambda a: a[0], parts))
    nothing = jax.tree.map(lambda s: jnp.zeros((count, *s.shape), s.dtype), shapes)

    def one(place: Array, out: Tree) -> Tree:
        made = _apart(group, part, *jax.tree.map(lambda a: a[place], parts))
        return jax.tree.map(lambda all, own: all.at[place].set(own), out, made)

    return crew.shared(jax.lax.fori_loop(*crew.mine(rank, count), one, nothing), rank)


def _over_devices(
    mesh: Mesh,
    here: Callable[..., Tree],
    group: Group | Party,
    common: Tree,
    index: Held,
    *per_client: Tree,
) -> Tree:
    """Let each device do `here` with as many clients, and with their rows, which it may lack."""
    size, devices = index.shape[0], mesh.size
    rows_divided = isinstance(group, Group) and group.train.each > 0
    everyone = is_static(index) and np.array_equal(index, np.arange(group.size))
    filled = -(-size // devices) * devices
    padded = jax.tree.map(lambda a: _padded(a, filled), (jnp.asarray(index), *per_client))
    divided, whole = PartitionSpec(AXIS), PartitionSpec()

    def on_device(group: Any, common: Tree, asked: Array, *own: Tree) -> Tree:
        if rows_divided and not everyone:
            group = dataclasses.replace(group, train=fetched(group.train, asked, devices))
            own = (jnp.arange(len(asked) // devices), *own[1:])
        return here(group, common, *own)

    out = jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(_lies(group), whole, whole, *[divided] * len(padded)),
        out_specs=divided,
        check_vma=False,
    )(group, common, padded[0], *padded)
    # Every device then holds all rows, so that the hub sums them in the same order everywhere.
    everywhere = NamedSharding(mesh, whole)
    return jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, everywhere)[:size], out)


def _lies(group: Group | Party) -> Any:
    """Which arrays of a group are divided over the devices, and which lie on each of them."""
    whole = PartitionSpec()
    if isinstance(group, Party) or not group.train.each:
        return whole
    rest: Any = jax.tree.map(lambda _: whole, group)
    return dataclasses.replace(rest, train=specs(group.train), test=specs(group.test))


def is_static(array: Held) -> bool:
    """Whether numbers are known while the program is made."""
    return isinstance(array, np.ndarray)


def _parts(array: Array, count: int, side_by_side: int) -> Array:
    """An array by client as one by part and place; places that are left repeat the first."""
    missing = count * side_by_side - array.shape[0]
    filled = jnp.concatenate([array, jnp.repeat(array[:1], missing, 0)]) if missing else array
    return filled.reshape(count, side_by_side, *array.shape[1:])


def _padded(array: Array, length: int) -> Array:
    """An array brought to a length by what it begins with."""
    times, more = divmod(length, len(array))
    return jnp.concatenate([*[array] * times, array[:more]])


def _apart(group: Group | Party, function: Callable[..., Tree], *args: Tree) -> Tree:
    """`function(*args)` behind a branch, so that nothing around it changes how it is computed."""
    if jax.default_backend() != "cpu" or isinstance(group, Party):
        return function(*args)
    function = jax.jit(function, inline=True)  # traced once for both uses
    shape = jax.eval_shape(function, *args)

    def nothing(*_: Tree) -> Tree:
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)

    # No offset is below zero, which XLA does not know.
    return jax.lax.cond(jnp.asarray(group.train.offsets)[0] >= 0, function, nothing, *args)
