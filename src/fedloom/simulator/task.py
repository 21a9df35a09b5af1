"""What all runs of a problem over the same clients share: rows on devices, programs, metrics."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType

from fedloom.data.clients import Clients
from fedloom.data.parties import Holders, Parties
from fedloom.divided_rows import AXIS
from fedloom.errors import ParameterError
from fedloom.measuring.evaluation import OfClients, whole_model
from fedloom.measuring.joint_evaluation import OfParties
from fedloom.measuring.measures import Measures
from fedloom.measuring.optimum import TO_A_POINT, Optimum
from fedloom.measuring.reference import Reference
from fedloom.metrics.chosen import shown
from fedloom.population import Federation, Group, assemble
from fedloom.problems.base import Metric, Problem
from fedloom.problems.saddle import SaddleProblem
from fedloom.protocol import Algorithm
from fedloom.pytrees import pytree, to_host
from fedloom.rounds import program
from fedloom.rounds.compiling import compiled
from fedloom.rounds.crew import cores
from fedloom.rounds.given import check_fit
from fedloom.rounds.parts import Plan, number_of_parts
from fedloom.simulator import all_cores, handing_over, hosts, places
from fedloom.types import Array, Tree

_SMALL_MODEL = 20_000  # below, a CPU computes clients side by side; above, one after the other
_ENOUGH = 4  # clients of a large model that are worth a crew of threads, in the place of XLA's own
_NUMBERS = 90_000  # of a step's rows times a model's size: how much clients side by side compute


class _Hub(NamedTuple):
    """A hub that is nothing but its model."""

    model: Array


@pytree
class _HandsOut(Algorithm):
    """Stands for any method whose clients use the hub's model, so that all share its program."""


@pytree
class _HandsOutSeparate(Algorithm):
    """The same, for a saddle problem in which every client has a dual of its own."""

    dual = "separate"


_ANY = {"shared": _HandsOut(), "separate": _HandsOutSeparate()}


class Task:
    """A problem over clients, ready to run. Methods that differ only in numbers can share one."""

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
        if jax.distributed.is_initialized():
            hosts.check_same({"the problem and its rows": federation} | places.alike(federation))
        self.plan = plan_for(federation, devices, lanes)
        self.federation = places.put(places.placed(federation, self.plan), self.plan)
        self.small = is_small(federation)
        self._devices, self._deterministic = devices, deterministic
        self._in_parts = isinstance(clients, Clients) and self._falls_into_parts(algorithm)
        self.opening = self._compiled(program.opening, in_parts=self._in_parts and self.small)
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
            self.about["parties"] = {
                "preparations": {n: own.as_dict() for n, own in clients.preparations.items()},
                "classes": None if clients.labels is None else clients.labels.tolist(),
            }
        preparation = getattr(clients, "preparation", None)
        if preparation is not None:
            self.about["preparation"] = preparation.as_dict()
        elif isinstance(clients, Clients):
            self.about["kind of rows"] = clients.described()
            self.about |= {"left out": clients.left_out} if clients.left_out else {}
        self.optimum = None if optimum is None else self._known(optimum, algorithm.dual)

    def _falls_into_parts(self, algorithm: Algorithm) -> bool:
        """Whether threads can compute parts of a cohort, each with kernels of its own.

        With a large model this pays only for enough clients, because XLA itself divides the kernels
        over all cores.
        """
        if self.small:
            return number_of_parts(len(self.clients), self.plan.lanes) > 1
        if not on_one_cpu() or len(self.clients) < _ENOUGH:
            return False
        return all_cores.parts(algorithm, self.federation, self.plan) >= _ENOUGH

    def threads(self, state_bytes: int) -> int | None:
        """How many threads divide the cohorts of a run with such states; None: as many as pay.

        If cohorts are not divided, one; XLA may still use threads of its own within kernels.
        """
        return self._devices if self._by_threads(state_bytes) and on_one_cpu() else 1

    def rounds_for(self, state_bytes: int, *, by_crew: bool = False) -> Any:
        """The program of rounds; with one thread it writes over large states, with a crew never."""
        large = state_bytes >= handing_over.LARGE and not by_crew
        given_away = ("hub", "clients") if large else ()
        in_parts = self._by_threads(state_bytes)
        return self._compiled(program.rounds, given_away=given_away, in_parts=in_parts)

    def _by_threads(self, state_bytes: int) -> bool:
        """Whether threads may divide cohorts.

        This does not depend on the number of cores, because it decides which kernels are used, and
        other kernels may change the last digits of a run.
        """
        return self._in_parts and (self.small or _ENOUGH * state_bytes <= all_cores.MOST_BYTES)

    def _compiled(self, function: Any, *, in_parts: bool, given_away: tuple[str, ...] = ()) -> Any:
        return compiled(
            function,
            "plan",
            given_away=given_away,
            small_steps=self.small or in_parts,
            by_threads=in_parts,
            deterministic=self._deterministic,
        )

    def measured(
        self, method: Algorithm, hub: Tree, clients: tuple[Tree, ...], plan: Plan
    ) -> dict[str, Any]:
        """The raw numbers of an evaluation.

        The clients of most methods use the hub's model. What is measured then depends only on that
        model, so one program measures all such methods, and a comparison compiles it once.
        """
        own = type(method)
        plain = own.deployed is Algorithm.deployed and own.other_models is Algorithm.other_models
        if plain and not method.personal_models:
            hub = _Hub(whole_model(method, self.federation, hub, clients))
            method, clients = _ANY[method.dual], tuple(() for _ in clients)
        return to_host(
            self.measure(method, self.federation, hub, clients, plan=plan, wanted=self.wanted)
        )

    def _known(self, optimum: Reference | Tree, dual: str) -> Optimum:
        """The optimum as a vector, from a `Reference`, a model, or a vector."""
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
    """Whether models are so small that even a CPU best computes clients side by side."""
    return federation.fed.layout.size < _SMALL_MODEL


def plan_for(federation: Federation, devices: int | None, lanes: int | None) -> Plan:
    """How to map clients on this machine, or on all machines of a run of several processes."""
    there = jax.devices() if jax.distributed.is_initialized() else jax.local_devices()
    if devices is not None:
        _check_devices(devices, len(there))
    count = len(there) if devices is None else devices
    mesh = None
    if count > 1 and not on_one_cpu():
        mesh = jax.make_mesh((count,), (AXIS,), (AxisType.Auto,), devices=there[:count])
    if lanes is None and jax.default_backend() == "cpu":
        lanes = lanes_on_cpu(federation)
    return Plan(lanes, mesh)


def _check_devices(devices: int, there: int) -> None:
    """Raise ParameterError if there are not that many devices, or cores of a CPU."""
    if hosts.several():
        raise ParameterError(
            f"devices must be left out in a run of several processes, which takes the {there} "
            f"that they have together; got {devices}. Leave it out."
        )
    kind, most = ("cores", cores()) if on_one_cpu() else ("devices", there)
    if not 1 <= devices <= most:
        raise ParameterError(
            f"devices must be a whole number from 1 to the {most} {kind} there are; got {devices}. "
            f"Leave it out for as many as pay."
        )


def on_one_cpu() -> bool:
    """Whether threads divide a cohort: on a CPU, unless the user has made several devices of it."""
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def lanes_on_cpu(federation: Federation) -> int:
    """How many clients a core computes side by side: as many as make a step worth its kernels.

    This does not depend on the number of cores, because it decides how cohorts fall into parts, and
    so the last bits of a run.
    """
    if not is_small(federation):
        return 1
    longest = [group.train.longest for group in federation.groups if isinstance(group, Group)]
    rows = min(federation.groups[0].batch_size or _NUMBERS, *longest, _NUMBERS)
    return max(1, _NUMBERS // (rows * federation.fed.layout.size))
