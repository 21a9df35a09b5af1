"""A cohort in parts: clients side by side, one part after the other, and parts over devices.

How a cohort falls into parts depends on its size and on the lanes of the plan, never on devices.
On a CPU a part is computed behind a branch that XLA cannot look into, and so are the results
gathered: every number of devices then runs the very same kernels on the very same numbers, and the
same bits come out. Left alone, XLA fuses what stands next to each other, and what is fused may
round differently.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedloom.population import Group, Party
from fedloom.rounds.crew import Crew
from fedloom.types import Array, Tree


class Plan(NamedTuple):
    """How clients are mapped; static, a part of the compiled program."""

    lanes: int | None  # how many clients are computed side by side; None: the whole cohort
    mesh: Mesh | None  # devices over which the cohort is divided; None: one device
    crew: Crew | None = None  # threads over which it is divided; None: one thread


def map_group(
    group: Group | Party, work: Callable[..., Tree], plan: Plan, common: Tree, *per_client: Tree
) -> Tree:
    """Apply `work(common, f, *rows)` to clients: side by side, in parts, or over devices.

    What all clients see is handed over as `common`: an array that `work` took from around it would
    belong to all devices together, and `zeros_like` of it could not be made on one of them. The
    first of `per_client` holds the clients' positions in the group.
    """
    size = per_client[0].shape[0]
    count = number_of_parts(size, plan.lanes)

    def here(group: Group | Party, common: Tree, *per_client: Tree) -> Tree:
        def one(index: Array, *rest: Tree) -> Tree:
            return work(common, group.objective(index), index, *rest)

        def part(*per_client: Tree) -> Tree:
            if per_client[0].shape[0] > 1:
                return jax.vmap(one)(*per_client)
            # Nothing to map: plain kernels, without a batch axis.
            out = one(*jax.tree.map(lambda a: a[0], per_client))
            return jax.tree.map(lambda a: jnp.asarray(a)[None], out)

        if count == 1:
            return part(*per_client)
        if plan.crew is not None and isinstance(group, Group):
            return _by_crew(plan.crew, group, part, per_client)
        return jax.lax.map(lambda parts: _apart(group, part, *parts), per_client)

    if count == 1:
        return here(group, common, *per_client)
    devices = 1 if plan.mesh is None else plan.mesh.size
    side_by_side = -(-size // count)
    computed = -(-count // devices) * devices
    parts = jax.tree.map(lambda a: _parts(a, computed, side_by_side), per_client)
    if plan.mesh is None:
        out = here(group, common, *parts)
    else:
        divided, whole = PartitionSpec("clients"), PartitionSpec()
        out = jax.shard_map(
            here,
            mesh=plan.mesh,
            in_specs=(whole, whole, *[divided] * len(parts)),
            out_specs=divided,
            check_vma=False,
        )(group, common, *parts)
        # Every device then holds all rows, so that the hub sums them in the same order everywhere.
        everywhere = NamedSharding(plan.mesh, whole)
        out = jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, everywhere), out)

    def in_order(out: Tree) -> Tree:
        return jax.tree.map(lambda a: a.reshape(computed * side_by_side, *a.shape[2:])[:size], out)

    return _apart(group, in_order, out)


def number_of_parts(size: int, lanes: int | None) -> int:
    """Into how many parts so many clients fall, of no more than `lanes` each.

    Parts are alike, the last one filled up with clients whose results are not used; up to twice as
    many parts as are needed are taken where that leaves fewer of these.
    """
    if lanes is None or lanes >= size:
        return 1
    least = -(-size // lanes)
    return min(range(least, 2 * least), key=lambda count: count * -(-size // count))


def _by_crew(crew: Crew, group: Group, part: Callable[..., Tree], per_client: Tree) -> Tree:
    """Compute the parts that are this member's, and take those of the others from them."""
    count, rank = per_client[0].shape[0], jnp.asarray(group.rank)
    part = jax.jit(part, inline=True)  # traced once for both uses
    shapes = jax.eval_shape(part, *jax.tree.map(lambda a: a[0], per_client))
    nothing = jax.tree.map(lambda s: jnp.zeros((count, *s.shape), s.dtype), shapes)

    def one(place: Array, out: Tree) -> Tree:
        made = _apart(group, part, *jax.tree.map(lambda a: a[place], per_client))
        return jax.tree.map(lambda all, own: all.at[place].set(own), out, made)

    return crew.shared(jax.lax.fori_loop(*crew.mine(rank, count), one, nothing), rank)


def _parts(array: Array, count: int, side_by_side: int) -> Array:
    """An array by client as one by part and place; places that are left repeat the first."""
    missing = count * side_by_side - array.shape[0]
    filled = jnp.concatenate([array, jnp.repeat(array[:1], missing, 0)]) if missing else array
    return filled.reshape(count, side_by_side, *array.shape[1:])


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
