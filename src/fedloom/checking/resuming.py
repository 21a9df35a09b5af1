"""A run that stops and goes on ends with the same bits as one that never stopped."""

import tempfile
from pathlib import Path

from fedloom.checking.case import Case
from fedloom.checking.verdicts import InapplicableError, same_bits
from fedloom.measuring.result import load


def is_exact(case: Case) -> str:
    """Stopped half way, saved, read and resumed, a run ends with the same bits."""
    half = case.rounds // 2
    if not half:
        raise InapplicableError("a single round cannot be stopped half way")
    with tempfile.TemporaryDirectory() as folder:
        case.simulate(rounds=half).save(Path(folder) / "half")
        resumed = case.simulate(resume=load(Path(folder) / "half"))
    where = f"after round {case.rounds}, resumed after round {half}"
    message = "what a resumed run ends with is not what the whole run ends with"
    same_bits(message, case.result.state, resumed.state, where=where)
    untimed = [[row | {"seconds": 0} for row in run.rows] for run in (case.result, resumed)]
    same_bits(message, *untimed, root="history", where=where)
    return f"stopped after round {half} of {case.rounds}"
