"""Every state of a short run, for diagnostics that look at more than the last one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.data.clients import Clients
from fedloom.population import Federation, assemble
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm, at_round
from fedloom.pytrees import to_host
from fedloom.rounds import program
from fedloom.rounds.compiling import reproducible
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Tree

_PLAN = Plan(None, None)


class Trajectory(NamedTuple):
    """The states of a run by round on a leading axis, the start first."""

    federation: Federation
    models: np.ndarray  # (rounds + 1, d)
    hub: Tree
    clients: tuple[Tree, ...]  # for each group; the second axis counts its clients
    info: Tree  # one for each round


def trajectory(
    algorithm: Algorithm,
    problem: Problem,
    clients: Clients,
    *,
    rounds: int,
    batch_size: int | None = None,
    seed: int = 0,
) -> Trajectory:
    """Run as `simulate` does, in double precision, and keep every state. For small models."""
    with jax.enable_x64(True):
        federation = assemble(problem, clients, batch_size, "float64")
        played = _play(algorithm, federation, draws.key(seed), rounds)
        (models, hub, states), info = to_host(played)
        return Trajectory(federation, models, hub, states, info)


@reproducible("rounds")
def _play(algorithm: Algorithm, federation: Federation, root: Array, rounds: int) -> Tree:
    fed = federation.fed
    hub, clients, _ = program.opening(algorithm, federation, root, _PLAN)

    def one(state: tuple[Tree, Tree], round: Array) -> tuple[Tree, Tree]:
        now = at_round(algorithm, round)
        steps = now.round(state[0], fed, draws.hub_key(root, round))
        hub, clients, info, _ = program.drive(steps, now, federation, state[1], root, round, _PLAN)
        return (hub, clients), ((algorithm.model(hub, fed), hub, clients), info)

    counters = jnp.arange(1, rounds + 1, dtype=jnp.int32)
    _, (later, info) = jax.lax.scan(one, (hub, clients), counters)
    start = (algorithm.model(hub, fed), hub, clients)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, later), info
