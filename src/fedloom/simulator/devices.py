"""Where a simulation's arrays lie, and how its clients are mapped."""

from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from fedloom.errors import ParameterError
from fedloom.population import Federation
from fedloom.rounds.mapping import Plan
from fedloom.types import Tree

SMALL_MODEL = 20_000  # below, a CPU computes all clients side by side; above, one after the other


def plan_for(federation: Federation, devices: int | None) -> Plan:
    """How to map clients on this machine."""
    local = jax.local_devices()
    if devices is not None and not 1 <= devices <= len(local):
        raise ParameterError(
            f"devices must be a whole number from 1 to the {len(local)} there are; got {devices}. "
            f"On a CPU, `jax.config.update('jax_num_cpu_devices', {devices})` at the start of the "
            f"program makes more."
        )
    count = len(local) if devices is None else devices
    mesh = None
    if count > 1:
        mesh = jax.make_mesh((count,), ("clients",), (AxisType.Auto,), devices=local[:count])
    on_cpu = jax.default_backend() == "cpu"
    large = federation.fed.layout.size >= SMALL_MODEL
    return Plan(1 if on_cpu and large else None, mesh)


def put_on_devices(tree: Tree, plan: Plan) -> Tree:
    """Put arrays on the device, or on all devices of the plan; shared arrays stay shared."""
    where = None if plan.mesh is None else NamedSharding(plan.mesh, PartitionSpec())
    placed: dict[int, Any] = {}

    def put(leaf: Any) -> Any:
        if id(leaf) not in placed:
            placed[id(leaf)] = jax.device_put(leaf, where)
        return placed[id(leaf)]

    return jax.tree.map(put, tree)
