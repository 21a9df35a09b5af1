"""A simulation in progress: its state, its evaluations, and what it leaves."""

import copy
import functools
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.data import holdings
from fedloom.data.parties import Holders, Parties
from fedloom.errors import DivergedError, ParameterError
from fedloom.exchange import wire
from fedloom.measuring import directions, evaluation, joint_evaluation, privacy_ledger
from fedloom.measuring.optimum import TO_A_POINT, Optimum
from fedloom.measuring.reference import Reference
from fedloom.measuring.result import Result, to_host
from fedloom.population import assemble
from fedloom.problems.base import Metric, Problem
from fedloom.problems.regularisers import Zero, is_constraint
from fedloom.protocol import Algorithm
from fedloom.rounds import keys, program
from fedloom.rounds.compiling import compiled
from fedloom.rounds.program import State
from fedloom.simulator.devices import SMALL_MODEL, place, plan_for
from fedloom.simulator.progress import Progress

Tree = Any

_CALL_SECONDS = 0.5  # how long a block may take, so that progress moves and Ctrl-C is heard


class Simulation:
    """A simulation in progress."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        clients: Holders,
        batch_size: int | None,
        seed: int,
        metrics: Sequence[str] | Mapping[str, Metric] | None,
        precision: str,
        devices: int | None,
        deterministic: bool,
    ):
        self.algorithm = algorithm
        self.clients = clients
        self.metrics = metrics
        self.root = keys.root(seed)
        check_fit(algorithm, problem)
        federation = assemble(problem, clients, batch_size, precision)
        self.plan = plan_for(federation, devices)
        self.federation = place(federation, self.plan)
        small = federation.fed.layout.size < SMALL_MODEL
        how = {"small_steps": small, "deterministic": deterministic}
        self._rounds = compiled(program.rounds, "plan", **how)
        self._opening = compiled(program.opening, "plan", **how)
        # A vertical federation has a model only together, so its metrics are taken together.
        self.measuring: Any = joint_evaluation if problem.kind == "vertical" else evaluation
        self._measure = compiled(
            self.measuring.measure, "plan", "wanted", deterministic=deterministic
        )
        self.on_evaluation: Callable[[dict[str, float]], None] | None = None
        self.rows: list[dict[str, float]] = []
        self.info: list[Tree] = []
        self.bytes_down = self.bytes_up = 0
        self.seconds = 0.0
        self.status = "unfinished"
        self.spent = privacy_ledger.ledger(algorithm, federation)
        self.about: dict[str, Any] = {
            "algorithm": repr(algorithm),
            "problem": repr(problem),
            "clients": len(clients),
            "batch_size": batch_size,
            "seed": seed,
            "precision": precision,
            "deterministic": deterministic,
            **privacy_ledger.statement(algorithm),
        }
        if problem.kind == "saddle":
            self.about["dual"] = algorithm.dual
        if isinstance(clients, Parties) and clients.alignment is not None:
            self.about["alignment"] = clients.alignment
        preparation = getattr(clients, "preparation", None)
        if preparation is not None:
            self.about["preparation"] = preparation.as_dict()

    def know(self, optimum: Any) -> None:
        """Choose the metrics; those of a known optimum need its vector and value."""
        fed = self.federation.fed
        self.wanted: evaluation.Wanted = self.measuring.choose(
            self.metrics, fed.problem, optimum is not None
        )
        self.optimum: Optimum | None = None
        if optimum is None:
            return
        if isinstance(optimum, Reference):
            self._warn_if_not_unique(optimum)
            optimum = optimum.vector
        vector = optimum if np.ndim(optimum) == 1 else fed.layout.ravel(optimum)
        if np.shape(vector) != (fed.layout.size,):
            raise ParameterError(
                f"optimum must be a model or a vector of {fed.layout.size} numbers; got shape "
                f"{np.shape(vector)}. Pass the solution of the same problem on the same clients."
            )
        dual = self.algorithm.dual
        self.optimum = self.measuring.optimum_of(
            self.federation, np.asarray(vector), self.plan, dual
        )
        self.optimum.check(self.wanted.of_the_whole)

    def _warn_if_not_unique(self, found: Reference) -> None:
        misleading = [name for name in TO_A_POINT if name in self.wanted.of_the_whole]
        if misleading and not found.unique:
            self.about["optimum"] = "not unique"
            warnings.warn(
                f"the solution of this problem is not unique, so {' and '.join(misleading)} are "
                f"those to one of many solutions. Use 'gap', or add l2 to the problem.",
                stacklevel=4,
            )

    def start(self, resume: Result | None, rounds: int, eval_every: int) -> None:
        """Make the first state, or take over that of an earlier run."""
        begin = (self.algorithm, self.federation, self.root)
        if resume is not None:
            opening = functools.partial(program.opening, plan=self.plan)
            hub, clients, _ = jax.eval_shape(opening, *begin)
            like = State(np.zeros((), np.int64), hub, clients)
            saved = wire.from_named(wire.named(resume.state), like)
            self.state = State(int(saved.round), *place((saved.hub, saved.clients), self.plan))
            # An interruption leaves an evaluation of its own, which the whole run does not have.
            for row, info in zip(resume.rows, resume.info, strict=True):
                if row["round"] % eval_every == 0 or row["round"] == rounds:
                    self.rows.append(row)
                    self.info.append(info)
            self.bytes_down, self.bytes_up = resume.about["bytes_down"], resume.about["bytes_up"]
            self.seconds = resume.about["seconds"]
            self.client_metrics = resume.client_metrics
            return
        hub, clients, traffic = self._opening(*begin, plan=self.plan)
        self.state = State(0, *place((hub, clients), self.plan))
        self._count(traffic)
        self._evaluate(())

    def sibling(self, algorithm: Algorithm, seed: int) -> "Simulation":
        """Another run on the same problem and clients, which differs in these two only."""
        other = copy.copy(self)
        other.algorithm, other.root = algorithm, keys.root(seed)
        other.about = self.about | {"algorithm": repr(algorithm), "seed": seed}
        other.about |= privacy_ledger.statement(algorithm)
        other.spent = privacy_ledger.ledger(algorithm, self.federation)
        other.rows, other.info = [], []
        return other

    def take(self, outcome: program.Outcome, stop: int) -> None:
        """The state after a block computed elsewhere; a diverged run stays where it was."""
        if self.status == "diverged" or int(outcome.diverged):
            self.status = "diverged"
            return
        self.state = State(stop, outcome.hub, outcome.clients)
        self._count(outcome.traffic)
        self._evaluate(to_host(outcome.info))

    def watch(self, checkpoint: Callable[[Result], None] | None, seconds: float) -> None:
        """Let someone have the result so far, every so many seconds."""
        self._checkpoint, self._checkpoint_seconds = checkpoint, seconds
        self._last_checkpoint = time.monotonic()

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
                self._let_have()
            self.status = "done"
        except KeyboardInterrupt:
            self.status = "interrupted"
            done = self.state.round
            print(
                f"interrupted after round {done} of {rounds}; what was done is kept",
                file=sys.stderr,
            )
            if self.rows[-1]["round"] != done:
                self._evaluate(())

    def _let_have(self) -> None:
        now = time.monotonic()
        if self._checkpoint and now - self._last_checkpoint >= self._checkpoint_seconds:
            self._checkpoint(self.result())
            self._last_checkpoint = now

    def result(self) -> Result:
        """What the run leaves, or what there is of it so far."""
        fed = self.federation.fed
        vector = self.measuring.whole_model(
            self.algorithm, self.federation, self.state.hub, self.state.clients
        )
        hub, clients = to_host((self.state.hub, self.state.clients))
        return Result(
            model=to_host(fed.layout.unravel(vector)),
            state=State(np.int64(self.state.round), hub, clients),
            rows=self.rows,
            client_metrics=self.client_metrics,
            client_names=self.clients.names,
            info=self.info,
            status=self.status,
            about=self.about
            | {
                "bytes_down": self.bytes_down,
                "bytes_up": self.bytes_up,
                "seconds": self.seconds,
                "larger_is_better": self._growing(),
            },
            holdings=holdings.columns(self.clients),
        )

    def _growing(self) -> list[str]:
        known = directions.of_metrics(self.metrics, self.federation.fed.problem)
        return directions.growing(self.rows[-1], known)

    def _advance(self, stop: int) -> Tree:
        """Run to round `stop`, or to the last one whose iterates are finite."""

        def go(stop: int) -> program.Outcome:
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
        self.client_metrics = self.measuring.per_client(raw, self.federation, self.wanted)
        row: dict[str, float] = {
            "round": self.state.round,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": self.seconds,
        }
        row |= self.measuring.summarise(
            raw, self.client_metrics, self.federation, self.wanted, self.optimum
        ) | self.spent(self.state.round)
        self.rows.append(row)
        self.info.append(info)
        if self.on_evaluation is not None:
            self.on_evaluation(row)

    def _count(self, traffic: program.Traffic) -> None:
        down, up, messages = (np.asarray(entry, np.int64) for entry in traffic)
        self.bytes_down += int(down @ messages)
        self.bytes_up += int(up @ messages)


def check_fit(algorithm: Algorithm, problem: Problem) -> None:
    """Raise ParameterError where a method is not for this kind of problem."""
    if algorithm.takes not in (problem.kind, *problem.also):
        raise ParameterError(
            f"{type(algorithm).__name__} is for {algorithm.takes} problems, and "
            f"{type(problem).__name__} is a {problem.kind} one. "
            f"`fedloom list algorithms` says which methods are for which problems."
        )
    name = type(algorithm).__name__
    if algorithm.takes_constraint and not is_constraint(problem.regulariser):
        raise ParameterError(
            f"{name} takes constraints (Box, Ball, Simplex) as the problem's regulariser; got "
            f"{problem.regulariser!r}. Use one of these, or remove it."
        )
    heeds = algorithm.takes_regulariser or algorithm.takes_constraint
    if not heeds and not isinstance(problem.regulariser, Zero):
        raise ParameterError(
            f"{name} takes no regulariser, and would ignore {problem.regulariser!r}. "
            f"Remove it from the problem, or choose a method of the composite family."
        )
