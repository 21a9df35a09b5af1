"""Whether all cores of a CPU compute a run, found out by trying it if enough rounds are left.

A run of a small model begins on one core. Once it is known how long rounds take, a crew of threads
is tried; it is kept where it is faster, which it is where clients have much to compute between two
exchanges. Clients of a large model always have, so that a crew computes them from the beginning.
The bits are the same either way, so that nothing depends on the choice but the time.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.exchange.expected import expected_exchanges
from fedloom.population import Federation
from fedloom.protocol import Algorithm
from fedloom.rounds.crew import Crew, cores, crew_of
from fedloom.rounds.meetings import CannotMeetError
from fedloom.rounds.parts import Plan, number_of_parts
from fedloom.rounds.program import Outcome
from fedloom.simulator import places
from fedloom.types import Tree

if TYPE_CHECKING:
    from fedloom.simulator.task import Task

_WORTH = 5.0  # how many times what it costs to try must be left to compute
LEAST = 0.5  # seconds over which a rate is measured; shorter runs need no trial
_FASTER = 1.1
_HOPELESS = 20.0  # times longer than before, and longer than ...
_FOR_LONG = 5.0  # ... so many seconds: other work in this process keeps the threads of JAX
MOST_BYTES = 2**29  # of the states of all members
_OF_MEMORY = 0.5  # how much of the machine's all members may take while they compute


def parts(algorithm: Algorithm, federation: Federation, plan: Plan) -> int:
    """Into how many parts the largest cohort of a round falls, of clients with equal shapes."""
    said = expected_exchanges(algorithm, federation)["round"]
    asked = max([exchange.clients for exchange in said], default=1)
    groups = [min(asked, group.size) for group in federation.groups]
    return max(number_of_parts(size, plan.lanes) for size in groups)


class AllCores:
    """How many threads compute a run, and the trial that decides it."""

    def __init__(
        self,
        task: "Task",
        algorithm: Algorithm,
        plan: Plan,
        state_bytes: int,
    ) -> None:
        """Take the task's number of threads, or if it leaves that open as many as pay.

        Each thread has a state of its own, so memory limits their number.
        """
        self.task, self.federation, size = task, task.federation, task.threads(state_bytes)
        self.algorithm, self.plan, self._state_bytes = algorithm, plan, state_bytes
        self._program: tuple[Plan, Callable[..., Outcome]] | None = None  # of a crew
        self.crew: Crew | None = None
        self._most = min(cores(), MOST_BYTES // max(state_bytes, 1))
        self._untried = size is None and self._most > 1
        self._alone: float | None = None  # rounds a second of one thread, while a crew is on trial
        self._rounds, self._seconds = 0, 0.0  # since the last change
        self._best = 0.0  # rounds a second
        self._size = size

    def begin(self) -> None:
        """Take the cores from the first round on, where no trial is needed; `end` lets them go."""
        if self._size is not None:
            self._take_on(min(self._size, self._as_pay()))
        elif self._untried and not self.task.small:
            self._untried = False
            self._take_on(self._as_pay())

    def compute(self, *state: Tree) -> Outcome | None:
        """The state after some rounds, computed by the whole crew; None: one thread has to do it.

        Args:
            state: Hub, clients, the run's key, the round before the first and the last one.
        """
        program = self._made(state)
        if self.crew is None or program is None:
            return None
        wide = jax.dtypes.canonicalize_dtype(np.float64) == np.float64

        def member(rank: int) -> Outcome:
            # A thread begins with JAX's own settings. That a run diverges is found in what comes
            # out, where JAX, told to look for numbers that are not finite, would fail before.
            with jax.enable_x64(wide), jax.debug_nans(False), jax.debug_infs(False):
                return jax.block_until_ready(program(self.algorithm, self._copies[rank], *state))

        rounds = int(state[-1] - state[-2])
        hopeless = _HOPELESS * rounds / self._best if self._best else math.inf
        try:
            return self.crew.do(member, limit=max(_FOR_LONG, hopeless))[0]
        except CannotMeetError:  # the state is as it was: a crew's program does not write over it
            places.tell("one thread goes on alone, with the same numbers: the others did not come")
            self.end()
            return None

    def _made(self, state: tuple[Tree, ...]) -> Callable[..., Outcome] | None:
        """The program that all members run, as many as there is memory for; None: one thread's.

        Made once, in this thread, as JAX is set here: in a thread of its own, each member could
        come to another program, and nobody meets in two.
        """
        while self.crew is not None:
            plan = self.plan._replace(crew=self.crew)
            if self._program is not None and self._program[0] == plan:
                return self._program[1]
            rounds = self.task.rounds_for(self._state_bytes, by_crew=True)
            self.crew.number_anew()
            made = rounds.lower(self.algorithm, self._copies[0], *state, plan=plan).compile()
            most = _that_fit(made)
            if self.crew.size <= most:
                self._program = plan, made
            else:
                self.end()
                self._take_on(most)
        return None

    def learn(self, rounds: int, seconds: float, left: int, cost: float) -> bool:
        """Learn how long some rounds took; returns whether the next block needs another program.

        Args:
            rounds: How many.
            seconds: How long they took.
            left: How many rounds are still to come.
            cost: The seconds that it takes to compile a program.
        """
        self._rounds, self._seconds = self._rounds + rounds, self._seconds + seconds
        if self._seconds < LEAST:
            return False
        rate = self._rounds / self._seconds
        self._best = max(self._best, rate)
        if self._alone is not None:  # the trial is over
            if rate < _FASTER * self._alone:
                self.end()
            self._alone = None
        elif self._untried and left / rate > _WORTH * max(cost, LEAST):
            self._untried = False
            self._take_on(self._as_pay())
            self._alone = rate if self.crew else None
            self._rounds, self._seconds = 0, 0.0
            return self.crew is not None
        return False

    def end(self) -> None:
        """Go on with one thread."""
        if self.crew is not None:
            self.crew.end()
            self.crew = None

    def _as_pay(self) -> int:
        """As many members as there is a core, memory and a part of the cohort for."""
        return min(self._most, parts(self.algorithm, self.federation, self.plan))

    def _take_on(self, size: int) -> None:
        if size <= 1 or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return
        if not (crew := crew_of(size)).begin():
            return
        self.crew = crew
        self._copies = [
            dataclasses.replace(
                self.federation,
                groups=tuple(
                    dataclasses.replace(group, rank=jnp.asarray(rank, jnp.int32))
                    for group in self.federation.groups
                ),
            )
            for rank in range(size)
        ]


def _that_fit(program: Any) -> int:
    """How many members a machine has memory for: each needs what the program says.

    Where they meet they share the replies of all clients, which takes about as much once more.
    """
    needed = getattr(program.memory_analysis(), "temp_size_in_bytes", 0)
    there = places.memory()  # 0: unknown
    return int(_OF_MEMORY * there // needed) - 1 if needed and there else cores()
