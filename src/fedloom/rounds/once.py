"""A single round of a method, as the preparation of tables plays it."""

from typing import NamedTuple

import jax
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


class Played(NamedTuple):
    """What a single round leaves."""

    hub: Tree
    info: Tree
    bytes_up: int
    bytes_down: int


def play_once(algorithm: Algorithm, problem: Problem, clients: Clients) -> Played:
    """The first round of a method, in double precision, over all rows of the clients."""
    with jax.enable_x64(True):
        federation = assemble(problem, clients, None, "float64")
        hub, info, traffic = to_host(_play(algorithm, federation, draws.key(0)))
        down, up, messages = (np.asarray(entry, np.int64) for entry in traffic)
        return Played(hub, info, int(up @ messages), int(down @ messages))


@reproducible()
def _play(
    algorithm: Algorithm, federation: Federation, root: Array
) -> tuple[Tree, Tree, program.Traffic]:
    hub, clients, _ = program.opening(algorithm, federation, root, _PLAN)
    algorithm = at_round(algorithm, 1)
    steps = algorithm.round(hub, federation.fed, draws.hub_key(root, 1))
    hub, _, info, traffic = program.drive(steps, algorithm, federation, clients, root, 1, _PLAN)
    return hub, info, traffic
