"""Names for the programs that reports print: `from verification.replay import *`."""

import jax

jax.config.update("jax_num_cpu_devices", 2)

from fedloom.algorithms import *  # noqa: E402, F403
from fedloom.models import *  # noqa: E402, F403
from fedloom.operators.compressors import *  # noqa: E402, F403
from fedloom.problems import *  # noqa: E402, F403
from verification.cases import Case, OfColumns, OfMatrices, OfRows  # noqa: E402, F401
from verification.checks import CHECKS, checks_of, simulated  # noqa: E402


def replay(case: Case, only: str | None = None) -> None:
    """Run a case and its comparisons, or one of them; raises `Disagreement`."""
    result = simulated(case)
    for check in checks_of(case) if only is None else [only]:
        if check in CHECKS:  # "simulator" stands for the run itself
            CHECKS[check](case, result)
        print(f"{check}: agrees")
