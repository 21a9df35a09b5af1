"""Whether all cores of a CPU compute a run: by trying it, where enough is left to be worth it.

A run begins on one core. Once it is known how long rounds take, a crew of threads is tried; it is
kept where it is faster, which it is where clients have much to compute between two exchanges. The
bits are the same either way, so that nothing depends on the choice but the time.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.exchange.expected import expected_exchanges
from fedloom.population import Federation
from fedloom.protocol import Algorithm
from fedloom.rounds.crew import CannotMeetError, Crew, cores, crew_of
from fedloom.rounds.parts import Plan, number_of_parts
from fedloom.rounds.program import Outcome

_WORTH = 5.0  # how many times what it costs to try must be left to compute
_LEAST = 0.5  # seconds over which a rate is measured
_FASTER = 1.1
_MOST_BYTES = 2**28  # of the states of all members

Rounds = Callable[[Federation, Plan], Outcome]


class AllCores:
    """How many threads compute a run, and the trial that decides it."""

    def __init__(
        self,
        federation: Federation,
        algorithm: Algorithm,
        plan: Plan,
        size: int | None,
        state_bytes: int,
    ) -> None:
        """A number of threads that is given is kept; None stands for as many as pay.

        Each of them has a state of its own, so that there is no choice where states are large.
        """
        self.federation, self.algorithm, self.plan = federation, algorithm, plan
        self.crew: Crew | None = None
        self._untried = size is None and cores() > 1 and cores() * state_bytes <= _MOST_BYTES
        self._alone: float | None = None  # rounds a second of one thread, while a crew is on trial
        self._rounds, self._seconds = 0, 0.0  # since the last change
        if size is not None and size > 1:
            self._take_on(size)

    def compute(self, rounds: Rounds) -> Outcome:
        """What `rounds` makes of the federation, by one thread or by all members of the crew."""
        if self.crew is None:
            return jax.block_until_ready(rounds(self.federation, self.plan))
        wide = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        plan = self.plan._replace(crew=self.crew)

        def member(rank: int) -> Outcome:
            with jax.enable_x64(wide):  # a thread begins with JAX's own setting
                return jax.block_until_ready(rounds(self._copies[rank], plan))

        try:
            return self.crew.do(member)[0]
        except CannotMeetError:  # the state is as it was: a crew's program does not write over it
            self.end()
            return self.compute(rounds)

    def compile(self, rounds: Rounds) -> Outcome:
        """Make the program ready, by rounds of which there is none, so that nobody meets."""
        if self.crew is None:
            return self.compute(rounds)
        return rounds(self._copies[0], self.plan._replace(crew=self.crew))

    def learn(self, rounds: int, seconds: float, left: int, cost: float) -> bool:
        """Hear how long some rounds took; returns whether the program to come is another one.

        Args:
            rounds: How many.
            seconds: How long they took.
            left: How many are to come.
            cost: The seconds that it takes to make a program ready.
        """
        self._rounds, self._seconds = self._rounds + rounds, self._seconds + seconds
        if self._seconds < _LEAST:
            return False
        rate = self._rounds / self._seconds
        if self._alone is not None:  # the trial is over
            if rate < _FASTER * self._alone:
                self.end()
            self._alone = None
        elif self._untried and left / rate > _WORTH * max(cost, _LEAST):
            self._untried = False
            said = expected_exchanges(self.algorithm, self.federation)
            asked = [exchange.clients for stage in said.values() for exchange in stage]
            parts = number_of_parts(max([*asked, 1]), self.plan.lanes)
            self._take_on(min(cores(), parts))
            self._alone = rate if self.crew else None
            self._rounds, self._seconds = 0, 0.0
            return self.crew is not None
        return False

    def end(self) -> None:
        """Go on with one thread."""
        if self.crew is not None:
            self.crew.end()
            self.crew = None

    def _take_on(self, size: int) -> None:
        crew = crew_of(size)
        if size == 1 or not crew.begin():
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
