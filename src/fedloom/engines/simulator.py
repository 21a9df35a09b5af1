"""Simulate a federation on one machine: blocks of rounds, each one call of a compiled program."""

import contextlib
import functools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from fedloom.data.clients import Clients
from fedloom.engines import block, evaluation, keys, wire
from fedloom.engines.block import State
from fedloom.engines.mapping import Plan
from fedloom.engines.progress import Progress, progress_for
from fedloom.engines.reference import Reference
from fedloom.engines.result import Result, to_host
from fedloom.errors import DivergedError, ParameterError
from fedloom.federation import Federation, assemble
from fedloom.parameters import Rule, at_least, check, one_of
from fedloom.problems.base import Problem
from fedloom.problems.regularisers import Zero
from fedloom.protocol import Algorithm

Tree = Any

_SMALL_MODEL = 20_000  # below, a CPU computes all clients side by side; above, one after the other
_CALL_SECONDS = 0.5  # how long a block may take, so that progress moves and Ctrl-C is heard


def simulate(
    algorithm: Algorithm,
    problem: Problem,
    clients: Clients,
    *,
    rounds: int = 100,
    batch_size: int | None = 32,
    seed: int = 0,
    eval_every: int = 10,
    metrics: Sequence[str] | Mapping[str, evaluation.RowFunction] | None = None,
    precision: str = "float32",
    optimum: Any = None,
    resume: Result | None = None,
    devices: int | None = None,
    progress: bool | Progress | None = None,
) -> Result:
    """Run an algorithm on a problem over clients, and return what came of it.

    Args:
        algorithm: The method, such as `fl.algorithms.FedAvg(lr=0.1)`.
        problem: What is optimised, such as `fl.problems.Logistic(l2=1e-3)`.
        clients: Who holds what, from `fl.data.partition` or `fl.data.from_arrays`.
        rounds: How many rounds.
        batch_size: Rows in a stochastic gradient, drawn without replacement; None: full gradients.
        seed: The same seed gives the same bits.
        eval_every: Rounds between two evaluations.
        metrics: Names, or a mapping from a name to a function `(model, rows)` that returns a number
            for each row; None: the problem's own.
        precision: "float32" or "float64".
        optimum: A known solution (from `fl.reference`, a model, or its vector), for the metrics
            "gap", "distance" and "optimality".
        resume: A result to go on from, up to `rounds` rounds in all.
        devices: Over how many local devices the cohort is divided; None: all there are.
        progress: Whether to show a bar; None: where standard error is a terminal.

    Returns:
        The model, the history, each client's metrics and the state. Ctrl-C ends the run early and
        returns what was done, with status "interrupted".

    Raises:
        DivergedError: The iterates are no longer finite. `error.result` holds the last good state.
    """
    check("simulate", "rounds", rounds, at_least(1))
    check("simulate", "batch_size", batch_size, at_least(1).or_none("full gradients"))
    check("simulate", "seed", seed, _seed)
    check("simulate", "eval_every", eval_every, at_least(1))
    check("simulate", "precision", precision, one_of("float32", "float64"))
    keep_compiled_programs()
    with jax.enable_x64(precision == "float64"):
        run = _Run(algorithm, problem, clients, batch_size, seed, metrics, precision, devices)
        run.know(optimum)
        run.start(resume)
        bar = progress_for(
            progress,
            type(algorithm).__name__,
            done=run.state.round,
            total=rounds,
            metric=(*run.wanted.of_clients, *run.wanted.of_the_whole, "")[0],
        )
        try:
            run.until(rounds, eval_every, bar)
        finally:
            bar.close()
        return run.result()


_seed = Rule(
    lambda v: isinstance(v, int) and 0 <= v < 2**63, "a whole number from 0 to 2^63 - 1", 0
)


class _Run:
    """A simulation in progress."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        clients: Clients,
        batch_size: int | None,
        seed: int,
        metrics: Sequence[str] | Mapping[str, evaluation.RowFunction] | None,
        precision: str,
        devices: int | None,
    ):
        self.algorithm = algorithm
        self.clients = clients
        self.metrics = metrics
        self.root = keys.root(seed)
        check_fit(algorithm, problem)
        federation = assemble(problem, clients, batch_size, precision)
        self.plan = plan_for(federation, devices)
        self.federation = place(federation, self.plan)
        small = federation.fed.layout.size < _SMALL_MODEL
        self._rounds = block.compiled(block.rounds, small)
        self._opening = block.compiled(block.opening, small)
        self._measure = jax.jit(evaluation.measure, static_argnames=("plan", "wanted"))
        self.rows: list[dict[str, float]] = []
        self.info: list[Tree] = []
        self.bytes_down = self.bytes_up = 0
        self.seconds = 0.0
        self.status = "done"
        self.about = {
            "algorithm": repr(algorithm),
            "problem": repr(problem),
            "clients": len(clients),
            "batch_size": batch_size,
            "seed": seed,
            "precision": precision,
        }

    def know(self, optimum: Any) -> None:
        """Choose the metrics; those of a known optimum need its vector and value."""
        fed = self.federation.fed
        self.wanted = evaluation.choose(self.metrics, fed.problem, optimum is not None)
        self.optimum: evaluation.Optimum | None = None
        if optimum is None:
            return
        if isinstance(optimum, Reference):
            optimum = optimum.vector
        vector = optimum if np.ndim(optimum) == 1 else fed.layout.ravel(optimum)
        if np.shape(vector) != (fed.layout.size,):
            raise ParameterError(
                f"optimum must be a model or a vector of {fed.layout.size} numbers; got shape "
                f"{np.shape(vector)}. Pass the solution of the same problem on the same clients."
            )
        self.optimum = evaluation.optimum_of(self.federation, np.asarray(vector), self.plan)

    def start(self, resume: Result | None) -> None:
        """Make the first state, or take over that of an earlier run."""
        begin = (self.algorithm, self.federation, self.root)
        if resume is not None:
            opening = functools.partial(block.opening, plan=self.plan)
            hub, clients, _ = jax.eval_shape(opening, *begin)
            like = State(np.zeros((), np.int64), hub, clients)
            saved = wire.from_named(wire.named(resume.state), like)
            self.state = State(int(saved.round), *place((saved.hub, saved.clients), self.plan))
            self.rows, self.info = list(resume.rows), list(resume.info)
            self.bytes_down = int(resume.final["bytes_down"])
            self.bytes_up = int(resume.final["bytes_up"])
            self.seconds = resume.final["seconds"]
            return
        hub, clients, traffic = self._opening(*begin, plan=self.plan)
        self.state = State(0, *place((hub, clients), self.plan))
        self._count(traffic)
        self._evaluate(())

    def until(self, rounds: int, eval_every: int, bar: Progress) -> None:
        """Go on to a round, evaluating on the way."""
        try:
            self._advance(self.state.round)  # no round yet: this compiles
            rate = 0.0
            while self.state.round < rounds:
                done = self.state.round
                stop = min(rounds, done - done % eval_every + eval_every)
                block_size = max(1, int(rate * _CALL_SECONDS))
                began = time.perf_counter()
                info = self._advance(min(stop, done + block_size))
                elapsed = time.perf_counter() - began
                self.seconds += elapsed
                rate = (self.state.round - done) / elapsed
                bar.advance(self.state.round, rate)
                if self.state.round == stop:
                    self._evaluate(info)
                    bar.evaluated(self.rows[-1])
        except KeyboardInterrupt:
            self.status = "interrupted"
            done = self.state.round
            print(
                f"interrupted after round {done} of {rounds}; what was done is kept",
                file=sys.stderr,
            )
            if self.rows[-1]["round"] != done:
                self._evaluate(())

    def result(self) -> Result:
        """What the run leaves."""
        fed = self.federation.fed
        vector = self.algorithm.model(self.state.hub, fed)
        hub, clients = to_host((self.state.hub, self.state.clients))
        return Result(
            model=to_host(fed.layout.unravel(vector)),
            state=State(np.int64(self.state.round), hub, clients),
            rows=self.rows,
            client_metrics=self.client_metrics,
            client_names=self.clients.names,
            info=self.info,
            status=self.status,
            about=self.about,
        )

    def _advance(self, stop: int) -> Tree:
        """Run to round `stop`, or to the last one whose iterates are finite."""

        def go(stop: int) -> block.Outcome:
            start = self.state.round
            counters = (jnp.asarray(start, jnp.int32), jnp.asarray(stop, jnp.int32))
            outcome = self._rounds(
                self.algorithm,
                self.federation,
                self.state.hub,
                self.state.clients,
                self.root,
                *counters,
                plan=self.plan,
            )
            return jax.block_until_ready(outcome)

        outcome = go(stop)
        bad = int(outcome.diverged)
        if bad:
            outcome, stop = go(bad - 1), bad - 1
        self.state = State(stop, outcome.hub, outcome.clients)
        self._count(outcome.traffic)
        if bad:
            self._diverged(bad)
        return to_host(outcome.info)

    def _diverged(self, round: int) -> None:
        self.status = "diverged"
        if self.rows[-1]["round"] != self.state.round:
            self._evaluate(())
        error = DivergedError(
            f"{type(self.algorithm).__name__} diverged: the hub's state is not finite after round "
            f"{round}. Lower the step size, or normalise the features."
        )
        error.result = self.result()
        raise error

    def _evaluate(self, info: Tree) -> None:
        raw = to_host(
            self._measure(
                self.algorithm,
                self.federation,
                self.state.hub,
                self.state.clients,
                plan=self.plan,
                wanted=self.wanted,
            )
        )
        self.client_metrics = evaluation.per_client(raw, self.federation, self.wanted)
        row: dict[str, float] = {
            "round": self.state.round,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": self.seconds,
        }
        row |= evaluation.summarise(
            raw, self.client_metrics, self.federation, self.wanted, self.optimum
        )
        self.rows.append(row)
        self.info.append(info)

    def _count(self, traffic: block.Traffic) -> None:
        down, up, messages = (np.asarray(entry, np.int64) for entry in traffic)
        self.bytes_down += int(down @ messages)
        self.bytes_up += int(up @ messages)


def check_fit(algorithm: Algorithm, problem: Problem) -> None:
    """Raise ParameterError where a method is not for this kind of problem."""
    if algorithm.takes != problem.kind:
        raise ParameterError(
            f"{type(algorithm).__name__} is for {algorithm.takes} problems, and "
            f"{type(problem).__name__} is a {problem.kind} one. "
            f"`fedloom list algorithms` says which methods are for which problems."
        )
    if not algorithm.takes_regulariser and not isinstance(problem.regulariser, Zero):
        name = type(algorithm).__name__
        raise ParameterError(
            f"{name} takes no regulariser, and would ignore {problem.regulariser!r}. "
            f"Remove it from the problem, or choose a method of the composite family."
        )


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
    large = federation.fed.layout.size >= _SMALL_MODEL
    return Plan(1 if on_cpu and large else None, mesh)


def place(tree: Tree, plan: Plan) -> Tree:
    """Put arrays on the device, or on all devices of the plan; shared arrays stay shared."""
    where = None if plan.mesh is None else NamedSharding(plan.mesh, PartitionSpec())
    placed: dict[int, Any] = {}

    def put(leaf: Any) -> Any:
        if id(leaf) not in placed:
            placed[id(leaf)] = jax.device_put(leaf, where)
        return placed[id(leaf)]

    return jax.tree.map(put, tree)


def keep_compiled_programs() -> None:
    """Keep compiled programs on disk, so that the next process starts at once.

    A cache directory that the user has set stays; FEDLOOM_CACHE names another, or "off".
    """
    wish = os.environ.get("FEDLOOM_CACHE", str(Path.home() / ".cache" / "fedloom"))
    if getattr(jax.config, "jax_compilation_cache_dir", None) or wish == "off":
        return
    with contextlib.suppress(OSError):
        folder = Path(wish) / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
