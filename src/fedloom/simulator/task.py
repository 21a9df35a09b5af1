"""What runs on one problem over the same clients share: rows on devices, programs, metrics."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from fedloom.data.clients import Clients
from fedloom.data.parties import Holders, Parties
from fedloom.directions import shown
from fedloom.divided_rows import AXIS
from fedloom.errors import ParameterError
from fedloom.measuring.evaluation import OfClients
from fedloom.measuring.joint_evaluation import OfParties
from fedloom.measuring.measures import Measures
from fedloom.measuring.optimum import TO_A_POINT, Optimum
from fedloom.measuring.reference import Reference
from fedloom.population import Federation, assemble
from fedloom.problems.base import Metric, Problem
from fedloom.problems.saddle import SaddleProblem
from fedloom.protocol import Algorithm
from fedloom.rounds import program
from fedloom.rounds.compiling import compiled
from fedloom.rounds.given import check_fit
from fedloom.rounds.mapping import Plan
from fedloom.simulator import hosts, places
from fedloom.types import Tree

_SMALL_MODEL = 20_000  # below, a CPU computes all clients side by side; above, one after the other


class Task:
    """What is simulated, ready to run; methods that differ in numbers only share one."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        clients: Holders,
        *,
        batch_size: int | None,
        metrics: Sequence[str] | Mapping[str, Metric | None] | None,
        precision: str,
        optimum: Reference | Tree,
        devices: int | None,
        deterministic: bool,
        lanes: int | None = None,
    ):
        check_fit(algorithm, problem)
        self.clients = clients
        labels = clients.y if isinstance(clients, Parties) else clients.train.y
        self.metrics = shown(problem, one_label=labels.ndim == 1) if metrics is None else metrics
        federation = assemble(problem, clients, batch_size, precision)
        hosts.check_same({"the problem and its rows": federation} | places.alike(federation))
        self.plan = plan_for(federation, devices, lanes)
        self.federation = put_on_devices(places.placed(federation, self.plan), self.plan)
        self.small = is_small(federation)
        how = {"small_steps": self.small, "deterministic": deterministic}
        self.rounds = compiled(program.rounds, "plan", given_away=("hub", "clients"), **how)
        self.opening = compiled(program.opening, "plan", **how)
        # Parties have a model only together, so its metrics are taken together.
        self.measures: Measures = OfParties() if isinstance(clients, Parties) else OfClients()
        self.measure = compiled(
            self.measures.measure, "plan", "wanted", deterministic=deterministic
        )
        self.wanted = self.measures.choose(self.metrics, problem, optimum is not None)
        self.about: dict[str, Any] = {
            "problem": repr(problem),
            "clients": len(clients),
            "batch_size": batch_size,
            "precision": precision,
            "deterministic": deterministic,
        }
        if isinstance(problem, SaddleProblem):
            self.about["dual"] = algorithm.dual
        if isinstance(clients, Parties) and clients.alignment is not None:
            self.about["alignment"] = clients.alignment
        preparation = getattr(clients, "preparation", None)
        if preparation is not None:
            self.about["preparation"] = preparation.as_dict()
        elif isinstance(clients, Clients) and clients.left_out:
            self.about["left out"] = clients.left_out
        self.optimum = None if optimum is None else self._known(optimum, algorithm.dual)

    def _known(self, optimum: Reference | Tree, dual: str) -> Optimum:
        """A solution, from `fl.reference`, a model, or its vector."""
        layout = self.federation.fed.layout
        if isinstance(optimum, Reference):
            self._warn_if_not_unique(optimum)
            optimum = optimum.vector
        vector = optimum if np.ndim(optimum) == 1 else layout.ravel(optimum)
        if np.shape(vector) != (layout.size,):
            raise ParameterError(
                f"optimum must be a model or a vector of {layout.size} numbers; got shape "
                f"{np.shape(vector)}. Pass the solution of the same problem on the same clients."
            )
        known = self.measures.optimum_of(self.federation, np.asarray(vector), self.plan, dual)
        known.check(self.wanted.of_the_whole)
        return known

    def _warn_if_not_unique(self, found: Reference) -> None:
        misleading = [name for name in TO_A_POINT if name in self.wanted.of_the_whole]
        if not misleading or found.unique:
            return
        self.about["optimum"] = "not unique"
        if hosts.leads():
            warnings.warn(
                f"the solution of this problem is not unique, so {' and '.join(misleading)} are "
                f"those to one of many solutions. Use 'gap', or add l2 to the problem.",
                stacklevel=5,
            )


def is_small(federation: Federation) -> bool:
    """Whether models are so small that clients are best computed side by side everywhere."""
    return federation.fed.layout.size < _SMALL_MODEL


def plan_for(federation: Federation, devices: int | None, lanes: int | None) -> Plan:
    """How to map clients on this machine, or on all machines of a run of several processes."""
    local = jax.devices() if hosts.several() else jax.local_devices()
    if hosts.several() and devices is not None:
        raise ParameterError(
            f"devices must be left out in a run of several processes, which takes the {len(local)} "
            f"that they have together; got {devices}. Leave it out."
        )
    if devices is not None and not 1 <= devices <= len(local):
        raise ParameterError(
            f"devices must be a whole number from 1 to the {len(local)} there are; got {devices}. "
            f"On a CPU, `jax.config.update('jax_num_cpu_devices', {devices})` at the start of the "
            f"program makes more."
        )
    count = len(local) if devices is None else devices
    mesh = None
    if count > 1:
        mesh = jax.make_mesh((count,), (AXIS,), (AxisType.Auto,), devices=local[:count])
    if lanes is None and jax.default_backend() == "cpu" and not is_small(federation):
        lanes = 1
    return Plan(lanes, mesh)


def put_on_devices(tree: Tree, plan: Plan) -> Tree:
    """Put arrays on the device, or on all devices of the plan; shared arrays stay shared."""
    where = None if plan.mesh is None else NamedSharding(plan.mesh, PartitionSpec())
    placed: dict[int, Any] = {}

    def made(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_replicated:
            return leaf  # rows that are divided
        if where is not None and hosts.several() and isinstance(leaf, np.ndarray):
            # As `device_put`, which would send the rows around to compare them once more.
            array = np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
            return jax.make_array_from_callback(array.shape, where, lambda part: array[part])
        return jax.device_put(leaf, where)

    def put(leaf: Any) -> Any:
        if id(leaf) not in placed:
            placed[id(leaf)] = made(leaf)
        return placed[id(leaf)]

    return jax.tree.map(put, tree)
