"""Step sizes that change from round to round: `lr=fl.schedules.Cosine(start=0.1, rounds=100)`.

Rounds count from 1. Round r takes the value of the schedule after r - 1 rounds, so the first round
has its initial value, and so has the opening, before the first round. Engines replace a schedule by
this value before they play a round, so a method always computes with a number, on every engine and
also in a resumed run. The numbers of a schedule are leaves: other numbers need no new program, and
a sweep can search over them.

A field that takes a schedule is declared as `lr: StepSize = param(step_size, ...)`.
"""

from typing import TYPE_CHECKING, ClassVar

import jax.numpy as jnp

from fedloom.errors import unwritten
from fedloom.lazy import public
from fedloom.parameters import Rule, at_least_zero, param, parametrised, positive
from fedloom.types import Array, Scalar

__all__ = ["Cosine", "Exponential", "Schedule", "StepSize", "Steps", "Warmup", "step_size"]

if TYPE_CHECKING:
    # To a type checker a schedule is a number, because where a method computes it has become one.
    _Number = float
else:
    _Number = object
    __getattr__, __dir__ = public(__name__)


class Schedule(_Number):
    """Base of the schedules: a step size as a function of the rounds that are done."""

    __parametrised__: ClassVar[bool] = True

    def value(self, done: Array) -> Scalar:
        """The step size after so many rounds; compute with jnp, for the number is traced.

        Args:
            done: How many rounds are done, from 0.
        """
        raise unwritten(self, "value")

    def in_round(self, round: Array | int) -> Scalar:
        """The step size in a round.

        Args:
            round: Which round, from 1; 0 is the opening.
        """
        return self.value(jnp.maximum(jnp.asarray(round) - 1, 0))


StepSize = float | Schedule  # the annotation of a field that takes either

step_size = Rule(
    lambda v: positive.holds(v) or isinstance(v, Schedule),
    "a number > 0, or a schedule",
    0.1,
    positive.schema,
)
_rounds = Rule(
    lambda v: positive.holds(v) and v >= 1 and v == int(v),
    "a whole number >= 1",
    100,
    {"type": "integer", "minimum": 1},
)
_milestones = Rule(
    lambda v: isinstance(v, tuple) and len(v) > 0 and all(map(_rounds.holds, v)),
    "a list of whole numbers >= 1",
    (50, 75),
    {"type": "array", "items": _rounds.schema, "minItems": 1},
)


@parametrised
class Exponential(Schedule):
    """Falls by a factor every round: start * decay^t after t rounds."""

    start: float = param(positive, "step size in the first round")
    decay: float = param(positive, "factor from one round to the next", default=0.99)

    def value(self, done: Array) -> Scalar:
        """A power of the factor."""
        return self.start * self.decay**done


@parametrised
class Cosine(Schedule):
    """Half a cosine wave: end + (start - end) (1 + cos(pi t / rounds)) / 2 after t rounds.

    Methods that divide by their step size, such as SCAFFOLD and FedCanon, need an end > 0 where a
    run goes on after the last of these rounds.
    """

    start: float = param(positive, "step size in the first round")
    # A real number and no whole one, so that another needs no new program.
    rounds: float = param(_rounds, "number of rounds until the step size has reached its end")
    end: float = param(at_least_zero, "step size from then on", default=0.0)

    def value(self, done: Array) -> Scalar:
        """From start to end, slowly at both."""
        way = jnp.minimum(done / self.rounds, 1.0)
        return self.end + (self.start - self.end) * (1 + jnp.cos(jnp.pi * way)) / 2


@parametrised
class Steps(Schedule):
    """Falls by a factor at the rounds in `at`: start * factor^(how many of them are over)."""

    start: float = param(positive, "step size in the first round")
    at: tuple[float, ...] = param(_milestones, "the rounds after which it falls")
    factor: float = param(positive, "factor by which it falls each time", default=0.1)

    def value(self, done: Array) -> Scalar:
        """One factor for each of the rounds that are behind."""
        behind = jnp.stack([done >= round for round in self.at]).sum()
        return self.start * self.factor**behind


@parametrised
class Warmup(Schedule):
    """Rises in equal steps to a number, or to the start of another schedule, which follows."""

    rounds: float = param(
        _rounds, "number of rounds in which it rises; the last of them has the whole step size"
    )
    after: StepSize = param(step_size, "step size, or schedule, from then on")

    def value(self, done: Array) -> Scalar:
        """A part of the later step size; then that, which counts its rounds from there."""
        later = jnp.maximum(done - self.rounds, 0)
        whole = self.after.value(later) if isinstance(self.after, Schedule) else self.after
        return jnp.minimum((done + 1) / self.rounds, 1.0) * whole
