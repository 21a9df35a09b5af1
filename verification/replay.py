"""Names for the programs that reports print: `from verification.replay import *`."""

from fedloom.algorithms import *  # noqa: F403
from fedloom.models import *  # noqa: F403
from fedloom.operators.compressors import *  # noqa: F403
from fedloom.optimisers import *  # noqa: F403
from fedloom.problems import *  # noqa: F403
from verification.cases import Case, OfColumns, OfMatrices, OfRows  # noqa: F401
from verification.checks import CHECKS, checks_of, simulated


def replay(case: Case, only: str | None = None) -> None:
    """Run a case and its comparisons, or one of them; raises `Disagreement`."""
    result = simulated(case)
    for check in checks_of(case) if only is None else [only]:
        if check in CHECKS:  # "simulator" stands for the run itself
            CHECKS[check](case, result)
        print(f"{check}: agrees")
