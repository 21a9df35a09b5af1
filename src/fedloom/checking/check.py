"""`fl.check(method)`: test a method against the laws that fedloom's own methods keep."""

from collections.abc import Callable, Sequence

from fedloom.checking.case import Case
from fedloom.checking.examples import example
from fedloom.checking.federations import Trial, kind_for, trial
from fedloom.checking.laws import LAWS, Law
from fedloom.checking.report import Report
from fedloom.checking.reproduction import code, expression
from fedloom.checking.shrinking import shrunk
from fedloom.checking.trying import broken
from fedloom.checking.verdicts import BROKEN, INAPPLICABLE, KEPT, UNCHECKED, Finding
from fedloom.checking.verdicts import InapplicableError as _Inapplicable
from fedloom.data.parties import Holders
from fedloom.errors import ParameterError
from fedloom.hints import closest
from fedloom.parameters import at_least
from fedloom.parameters import check as check_rule
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.compiling import kept_programs
from fedloom.rounds.given import check_clients, check_fit, check_problem, named


@named
def check(
    method: Algorithm | type[Algorithm],
    *,
    problem: Problem | None = None,
    clients: Holders | None = None,
    laws: Sequence[str] | None = None,
    rounds: int = 4,
    batch_size: int | None = 4,
    seed: int = 0,
    progress: Callable[[str], None] = lambda law: None,
) -> Report:
    """Test a method against the laws that all methods keep: engines agree, resuming is exact, ...

    Args:
        method: The method, such as `MyMethod(lr=0.1)`, or its class, which is then made with small
            values for its parameters.
        problem: The problem to try it on; None: a small one of the kind that the method is for.
        clients: The clients and their data; None: four clients with a few rows each.
        laws: The keys of the laws to try, as the report names them; None: all.
        rounds: The number of rounds of each run.
        batch_size: Rows in a stochastic gradient; None: full gradients.
        seed: The seed of the runs.
        progress: Called with the title of each law before it is tried.

    Returns:
        A report with a finding for each law, and `ok`, which is true if no law is broken. A broken
        law comes with the smallest example that was found, its numbers, and Python code to repeat
        it.

    Raises:
        ParameterError: `method` is not a method, or does not fit the problem.
    """
    made = example(method)
    check_rule("check", "rounds", rounds, at_least(1))
    check_rule("check", "batch_size", batch_size, at_least(1).or_none("full gradients"))
    chosen = _chosen(laws)
    as_usual = problem is None and clients is None and (rounds, batch_size, seed) == (4, 4, 0)
    if problem is None or clients is None:
        usual = trial(kind_for(made))
        problem = usual.problem if problem is None else problem
        clients = usual.clients if clients is None else clients
    check_problem("check", problem)
    check_clients("check", clients)
    check_fit(made, problem)
    case = Case(made, Trial(problem, clients), rounds=rounds, batch_size=batch_size, seed=seed)
    findings: list[Finding] = []
    stopped = ""
    for key, law in LAWS.items():
        if key not in chosen and not law.first:
            continue
        if stopped:
            findings.append(Finding(key, law.title, UNCHECKED, f"{stopped!r} comes first"))
            continue
        progress(law.title)
        with kept_programs():  # also those of the wire engine and of sweeps: most time is compiling
            found = _finding(key, law, case, as_usual)
        if found.verdict == BROKEN and law.first:
            stopped = key
        if key in chosen or stopped:
            findings.append(found)
    return Report(expression(made, set()), case.described(), tuple(findings))


def _chosen(laws: Sequence[str] | None) -> Sequence[str]:
    if laws is None:
        return tuple(LAWS)
    for key in laws:
        if key not in LAWS:
            raise ParameterError(
                f"check: laws must be keys of laws; got {key!r}. {closest(str(key), LAWS)}"
            )
    return laws


def _finding(key: str, law: Law, case: Case, as_usual: bool) -> Finding:
    try:
        error, looked_at = broken(law, case)
    except _Inapplicable as reason:
        return Finding(key, law.title, INAPPLICABLE, str(reason))
    if error is None:
        return Finding(key, law.title, KEPT, looked_at)
    small = case
    if not law.of_code:
        small, error = shrunk(law, case, error)
    own = small is not case or not as_usual
    return Finding(
        key,
        law.title,
        BROKEN,
        error.message,
        error.difference,
        error.line,
        small.described(),
        code(small, key, own_federation=own),
    )
