"""A run in progress: its state, its evaluations, and what it leaves."""

import functools
import sys
import time
from collections.abc import Callable

import jax
import numpy as np

from fedloom import draws, interrupts
from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.errors import DivergedError
from fedloom.measuring import privacy_ledger
from fedloom.measuring.earlier import state_of
from fedloom.measuring.result import Result
from fedloom.metrics import chosen as metrics_of
from fedloom.protocol import Algorithm
from fedloom.pytrees import payload_bytes, to_host
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from fedloom.rounds.program import State
from fedloom.simulator import all_cores, handing_over, hosts, lanes, places, resuming
from fedloom.simulator.all_cores import AllCores
from fedloom.simulator.handing_over import Sent, WayBack, copied, is_gone
from fedloom.simulator.progress import Progress
from fedloom.simulator.task import Task
from fedloom.types import Tree

_CALL_SECONDS = 0.5  # how long a block may take, so that progress moves and Ctrl-C is heard


class Simulation:
    """A run in progress, at its first state or at that of an earlier run."""

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        seed: int,
        *,
        rounds: int,
        eval_every: int,
        resume: Result | None = None,
        on_evaluation: Callable[[dict[str, float]], None] | None = None,
        checkpoint: Callable[[Result], None] | None = None,
        checkpoint_seconds: float = 0.0,
    ):
        self.task = task
        self.federation = task.federation
        self.algorithm = algorithm
        self.root = draws.key(seed)
        self.plan = self._plan(resume)
        self.total, self.eval_every = rounds, eval_every
        self.on_evaluation = on_evaluation
        self._checkpoint, self._checkpoint_seconds = checkpoint, checkpoint_seconds
        self._last_checkpoint = time.monotonic()
        self.about = {"algorithm": repr(algorithm), **task.about, "seed": seed}
        if resume is not None:
            self.about |= resuming.before(resume, self.about)
        self._spent: Callable[[int], dict[str, float]] | None = None  # of privacy, after a round
        if isinstance(algorithm, Wrapper):  # one of its layers may be private
            self._spent = privacy_ledger.ledger(algorithm, task.federation)
            self.about |= privacy_ledger.statement(algorithm)
        self.rows: list[dict[str, float]] = []
        self.info: list[Tree] = []
        self.client_metrics: dict[str, np.ndarray] = {}
        self.bytes_down, self.bytes_up, self.seconds = 0, 0, 0.0
        self.status = "unfinished"
        self.state: State
        if resume is None:
            self._begin()
        else:
            self._take_over(resume)
        self._began_at = self.state.round, self.seconds
        self._state_bytes = payload_bytes((self.state.hub, self.state.clients))
        self._rounds = task.rounds_for(self._state_bytes)
        self._way_back: WayBack | None = None  # None: rounds leave the states that they are given
        if self._state_bytes >= handing_over.LARGE:
            # The first state may share arrays with the problem, so that it is what is kept.
            self._way_back = WayBack(self._sent(), self.seconds)
            self.state = copied(self.state)
        self._cores: AllCores | None = None  # None: one core computes, and no more were tried
        self._threads = task.threads(self._state_bytes)  # None: as many as pay

    def _plan(self, earlier: Result | None) -> Plan:
        """How clients are mapped: as in the resumed run, or as many at once as fit into memory."""
        plan = self.task.plan
        if plan.lanes is not None or self.task.small:
            return plan
        if earlier is not None and earlier.about.get("lanes") is not None:
            return plan._replace(lanes=earlier.about["lanes"])
        free = places.free_memory()
        return plan if free is None else lanes.fitted(self.task, self.algorithm, self.root, free)

    def _begin(self) -> None:
        hub, clients, traffic = self.task.opening(
            self.algorithm, self.federation, self.root, plan=self.plan
        )
        self.state = State(0, *places.put((hub, clients), self.plan))
        self._count(traffic)
        self._evaluate(())

    def _take_over(self, earlier: Result) -> None:
        opening = functools.partial(program.opening, plan=self.plan)
        hub, clients, _ = jax.eval_shape(opening, self.algorithm, self.federation, self.root)
        saved = state_of("simulate: resume", earlier, self.about, hub, clients)
        self.state = State(int(saved.round), *places.put((saved.hub, saved.clients), self.plan))
        # An interruption leaves an evaluation of its own, which the whole run does not have.
        for row, info in zip(earlier.rows, earlier.info, strict=True):
            if row["round"] % self.eval_every == 0 or row["round"] == self.total:
                self.rows.append(row)
                self.info.append(info)
        self.bytes_down, self.bytes_up = earlier.about["bytes_down"], earlier.about["bytes_up"]
        self.seconds = earlier.about["seconds"]
        self.client_metrics = earlier.client_metrics

    def take(self, outcome: program.Outcome, stop: int) -> None:
        """Take over the state after a block computed elsewhere; a diverged run stays as it was."""
        if self.status == "diverged" or int(outcome.diverged):
            self.status = "diverged"
            return
        self._go_on_from(outcome, stop)
        self._evaluate(to_host(outcome.info))

    def run(self, bar: Progress | None, joined: bool) -> None:
        """Go on to the last round, evaluating on the way; `joined` by others, all do the same."""
        rounds, eval_every = self.total, self.eval_every
        try:
            if self._threads != 1 and (self._threads or not self.task.small):
                self._cores = AllCores(self.task, self.algorithm, self.plan, self._state_bytes)
                self._cores.begin()
            compiling, rate = self._compile(), 0.0
            while self.state.round < rounds:
                done = self.state.round
                stop = min(rounds, done - done % eval_every + eval_every)
                block_size = max(1, int(rate * _CALL_SECONDS))
                began = time.perf_counter()
                info = self._advance(min(stop, done + block_size))
                elapsed, due = time.perf_counter() - began, float(self._is_due())
                if joined:  # by one clock, so that all have blocks of one size
                    elapsed, due = hosts.agreed(elapsed, due)
                self.seconds += elapsed
                rate = (self.state.round - done) / elapsed
                if self._way_back is not None:
                    self._way_back.keep(self._sent(), self.seconds)
                if bar is not None:
                    bar.advance(self.state.round, rate)
                if self.state.round == stop:
                    self._evaluate(info)
                    if bar is not None:
                        bar.evaluated(self.rows[-1])
                if due and self._checkpoint is not None:
                    self._checkpoint(self.result())
                    self._last_checkpoint = time.monotonic()
                if not joined:
                    interrupts.raise_if_pressed()
                if self._threads != 1 and self._changes_cores(done, elapsed, compiling):
                    self._compile()
            self.status = "done"
        except BaseException as error:
            if not interrupts.is_interrupt(error):
                raise
            self.status = "interrupted"
            done = self.state.round
            if self._way_back is not None and is_gone(self.state):
                self._advance(done)
            if hosts.leads():
                told = f"interrupted after round {done} of {rounds}; what was done is kept"
                print(told, file=sys.stderr)
            if self.rows[-1]["round"] != done:
                self._evaluate(())
        finally:
            if self._cores is not None:
                self._cores.end()

    def _changes_cores(self, done: int, elapsed: float, compiling: float) -> bool:
        """Whether the number of cores changes, given the time of the block since round `done`."""
        if self._cores is None:
            done, earlier = self._began_at
            elapsed = self.seconds - earlier
            if elapsed < all_cores.LEAST:
                return False
            self._cores = AllCores(self.task, self.algorithm, self.plan, self._state_bytes)
        now = self.state.round
        return self._cores.learn(now - done, elapsed, self.total - now, compiling)

    def _is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        since = time.monotonic() - self._last_checkpoint
        return self._checkpoint is not None and since >= self._checkpoint_seconds

    def result(self) -> Result:
        """The result of the run, or of its rounds so far."""
        fed = self.federation.fed
        vector = self.task.measures.whole_model(
            self.algorithm, self.federation, self.state.hub, self.state.clients
        )
        hub, clients = to_host((self.state.hub, self.state.clients))
        known = metrics_of.of_metrics(self.task.metrics, fed.problem)
        return Result(
            model=fed.layout.unravel(np.asarray(to_host(vector))),
            state=State(np.int64(self.state.round), hub, clients),
            rows=list(self.rows),
            client_metrics=self.client_metrics,
            client_names=self.task.clients.names,
            info=list(self.info),
            status=self.status,
            about=self.about
            | {
                "bytes_down": self.bytes_down,
                "bytes_up": self.bytes_up,
                "seconds": self.seconds,
                "lanes": self.plan.lanes,
                "larger_is_better": metrics_of.growing(self.rows[-1], known),
                "headline": metrics_of.headline(self.task.metrics, fed.problem),
            },
            holdings=self.task.clients.holdings(),
        )

    def _computed(self, stop: int) -> program.Outcome:
        """The rounds from here to `stop`, with fewer clients at a time where memory runs out."""
        while True:
            if self._way_back is not None and is_gone(self.state):
                self.state, self.bytes_down, self.bytes_up = self._way_back.take()
            counters = (np.int32(self.state.round), np.int32(stop))  # by JAX they would be programs
            state = (self.state.hub, self.state.clients, self.root, *counters)
            try:
                outcome = None if self._cores is None else self._cores.compute(*state)
                if outcome is None:
                    outcome = self._rounds(self.algorithm, self.federation, *state, plan=self.plan)
                return jax.block_until_ready(outcome)
            except jax.errors.JaxRuntimeError as error:
                self.plan = lanes.halved(self.plan, self.federation.fed.n, error)
                if self._cores is not None:
                    self._cores.plan = self.plan

    def _compile(self) -> float:
        """Compile the program by running no round; returns the seconds that it took."""
        began = time.perf_counter()
        self._advance(self.state.round)
        return time.perf_counter() - began

    def _advance(self, stop: int) -> Tree:
        """Run to round `stop`, or to the last one whose iterates are finite."""
        outcome = self._computed(stop)
        bad = int(outcome.diverged)
        if bad:
            outcome, stop = self._computed(bad - 1), bad - 1
        self._go_on_from(outcome, stop)
        if bad:
            self._diverged(bad)
        return to_host(outcome.info)

    def _go_on_from(self, outcome: program.Outcome, round: int) -> None:
        self.state = State(round, outcome.hub, outcome.clients)
        self._count(outcome.traffic)

    def _sent(self) -> Sent:
        return Sent(self.state, self.bytes_down, self.bytes_up)

    def _diverged(self, round: int) -> None:
        self.status = "diverged"
        if self.rows[-1]["round"] != self.state.round:
            self._evaluate(())
        advice = "Lower the step size, or normalise the features."
        if np.isnan(self.rows[0].get("loss", 0)) and self.rows[0]["round"] == 0:
            advice = "Its loss was no number before: look at what the model returns for the rows."
        error = DivergedError(
            f"{type(self.algorithm).__name__} diverged: the hub's state is not finite after round "
            f"{round}. {advice}"
        )
        error.result = self.result()
        raise error

    def _evaluate(self, info: Tree) -> None:
        raw = self.task.measured(self.algorithm, self.state.hub, self.state.clients, self.plan)
        self.client_metrics = self.task.measures.per_client(raw, self.federation, self.task.wanted)
        row: dict[str, float] = {
            "round": self.state.round,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": self.seconds,
        }
        row |= self.task.measures.summarise(
            raw, self.client_metrics, self.federation, self.task.wanted, self.task.optimum
        )
        if self._spent is not None:
            row |= self._spent(self.state.round)
        self.rows.append(row)
        self.info.append(info)
        if self.on_evaluation is not None:
            self.on_evaluation(row)

    def _count(self, traffic: program.Traffic) -> None:
        down, up, messages = (np.asarray(entry, np.int64) for entry in traffic)
        self.bytes_down += int(down @ messages)
        self.bytes_up += int(up @ messages)
