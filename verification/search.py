"""The search: methods in turn, a case at a time, and the smallest one where something disagrees."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import hypothesis
import jax
from hypothesis import HealthCheck, Phase, Verbosity, assume
from hypothesis.errors import HypothesisException

from fedloom.errors import FedloomError
from verification.cases import Case
from verification.checks import CHECKS, Disagreement, checks_of, simulated
from verification.drawing import cases

SHRINK_SECONDS = 240.0  # how long a smaller case is looked for
_KEPT = 20  # draws after which compiled programs are let go, as a process may map only so many


class Outcome(NamedTuple):
    """What came of a draw."""

    case: Case
    passed: tuple[str, ...]  # the checks that agreed
    error: Disagreement | None = None
    refused: str = ""  # why there was nothing to compare


class Enough(BaseException):
    """A case is small enough; not an Exception, so that Hypothesis lets it through."""


class Visit:
    """Draws for one method until one could be compared."""

    def __init__(self, key: str, seed: int):
        self.key, self.seed, self.deadline = key, seed, 0.0
        self.outcomes: list[Outcome] = []
        self.smallest: Outcome | None = None

    def run(self) -> "Visit":
        """Draw; where checks fail, shrink."""
        settings = hypothesis.settings(
            max_examples=1,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        drawn = hypothesis.given(cases(self.key))(self._try)
        try:
            settings(hypothesis.seed(self.seed)(drawn))()
        except (Disagreement, Enough, HypothesisException):
            pass  # noted in `smallest`, also where it did not happen a second time
        return self

    def _try(self, case: Case) -> None:
        failed = self.smallest and self.smallest.error
        if failed and time.monotonic() > self.deadline:
            raise Enough
        # While a case shrinks, only the check that failed is of interest.
        outcome = examine(case, [failed.check] if failed else None)
        if not failed:
            self.outcomes.append(outcome)
        if outcome.error is not None:
            if not failed:
                self.deadline = time.monotonic() + SHRINK_SECONDS
            self.smallest = outcome
            raise outcome.error
        assume(not outcome.refused)


def examine(case: Case, only: Sequence[str] | None = None) -> Outcome:
    """Run a case and compare."""
    try:
        result = simulated(case)
    except FedloomError as error:
        return Outcome(case, (), refused=f"{type(error).__name__}: {error}")
    except Exception as error:
        # What a user may not do is refused in fedloom's own words; anything else is a fault.
        return Outcome(case, (), Disagreement("simulator", f"{type(error).__name__}: {error}"))
    passed: list[str] = []
    for check in [name for name in checks_of(case) if only is None or name in only]:
        try:
            CHECKS[check](case, result)
        except Disagreement as error:
            return Outcome(case, tuple(passed), error)
        except Exception as error:
            # An engine that stops where the simulator went on disagrees as well.
            raised = Disagreement(check, f"{type(error).__name__}: {error}")
            return Outcome(case, tuple(passed), raised)
        passed.append(check)
    return Outcome(case, tuple(passed))


def search(
    keys: Sequence[str], seed: int, deadline: float, show: Callable[[str, Any], None]
) -> Iterator[Visit]:
    """Visit all methods in a random order, again and again, until the time is over; one at least.

    A method that has failed is not visited again: there would be more of the same.
    """
    chance, left, visits = random.Random(seed), list(keys), 0
    while left:
        chance.shuffle(left)
        for key in list(left):
            if visits and time.monotonic() > deadline:
                return
            show("random federations", key)
            visit = Visit(key, chance.randrange(2**32)).run()
            if visit.smallest is not None:
                left.remove(key)
            yield visit
            visits += 1
            if visits % _KEPT == 0:
                jax.clear_caches()
