"""Laws of chance: everything is drawn from the key of the round, and from nothing else."""

import jax
import numpy as np

from fedloom.checking import tracing
from fedloom.checking.authors import line_of
from fedloom.checking.case import Case
from fedloom.checking.verdicts import BrokenLawError, Difference, same_bits


def is_pure(case: Case) -> str:
    """Read twice, the code is the same program: it keeps nothing and draws nothing on its own."""
    first, second = tracing.read(case), tracing.read(case)
    if (first.text, first.constants) == (second.text, second.constants):
        return "the same program each time it is read"
    lines = zip(first.text.splitlines(), second.text.splitlines(), strict=False)
    one, other = next(((a, b) for a, b in lines if a != b), ("one array", "another array"))
    raise BrokenLawError(
        "read twice, the code is two programs: it keeps a variable of Python, or draws with "
        "np.random or the clock. Draw from the key, and keep what changes in the state",
        Difference("a constant of the program", one.strip(), other.strip()),
        line=line_of(type(case.method).round),
    )


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
    if tracing.read(case).draws:
        raise BrokenLawError(
            f"random numbers are drawn, but seeds {case.seed} and {case.seed + 1} give the same "
            f"run: the key is one of the method's own. Draw from the `key` that hub and clients "
            f"are given",
            line=line_of(type(case.method).round),
        )
    return "nothing is drawn"
