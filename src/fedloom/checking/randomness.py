"""Laws of chance: everything is drawn from the key of the round, and from nothing else."""

from typing import Any

import jax
import numpy as np

from fedloom.checking import tracing
from fedloom.checking.authors import line_of_frames
from fedloom.checking.case import Case
from fedloom.checking.tracing import Program, Step
from fedloom.checking.verdicts import BrokenLawError, Difference, same_bits


def is_pure(case: Case) -> str:
    """Read twice, the code is the same program: it keeps nothing and draws nothing on its own."""
    first, second = tracing.read(case), tracing.read(case)
    if first.digest == second.digest:
        return "the same program each time it is read"
    one, other = _first_unlike(first, second)
    at = line_of_frames(one.frames, case.method)
    said = "read twice, the code is two programs: "
    if one.name == other.name and len(one.numbers) == len(other.numbers):
        pairs = zip(one.numbers, other.numbers, strict=True)
        was, is_now = next((a, b) for a, b in pairs if not _same(a, b))
        said += "a number in this line is another each time"
        got = Difference("the number", _shown(was), _shown(is_now))
    else:
        said += "from this line on, it does something else the second time"
        got = None
    raise BrokenLawError(
        f"{said}. It comes from np.random, from the clock, or from a variable of Python that the "
        f"code changes. Draw from the key, and keep what changes in the state",
        got,
        line=at,
    )


def _first_unlike(first: Program, second: Program) -> tuple[Step, Step]:
    for one, other in zip(first.steps, second.steps, strict=False):
        same = one.name == other.name and len(one.numbers) == len(other.numbers)
        if not same or not all(map(_same, one.numbers, other.numbers)):
            return one, other
    longer = max(first.steps, second.steps, key=len)
    return longer[min(len(first.steps), len(second.steps))], Step("the end", (), ())


def _same(one: Any, other: Any) -> bool:
    return tracing.as_bytes(one) == tracing.as_bytes(other)


def _shown(number: Any) -> Any:
    """A number; of an array its first."""
    values = np.asarray(number).ravel()
    return values[0].item() if values.size else "nothing"


def follows_seeds(case: Case) -> str:
    """The same seed gives the same bits; another seed does not, if anything is drawn."""
    first, second, other = case.result, case.simulate(), case.simulate(seed=case.seed + 1)
    again = "the same seed must give the same bits"
    same_bits(again, first.state, second.state, where=f"round {case.rounds}")
    untimed = [[row | {"seconds": 0} for row in result.rows] for result in (first, second)]
    same_bits(again, *untimed, root="history")
    same = jax.tree.map(np.array_equal, first.state[1:], other.state[1:])
    if not all(jax.tree.leaves(same)):
        return f"seed {case.seed} twice, and seed {case.seed + 1}"
    drawn = tracing.read(case).draws
    if drawn:
        lines = [line_of_frames(step.frames, case.method) for step in drawn]
        raise BrokenLawError(
            f"random numbers are drawn, but seeds {case.seed} and {case.seed + 1} give the same "
            f"run: the key is one of the method's own. Draw from the `key` that hub and clients "
            f"are given",
            line=lines[0],
        )
    return "nothing is drawn"
