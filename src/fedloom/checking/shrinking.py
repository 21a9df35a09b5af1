"""The smallest federation on which a law is still broken: fewer rounds, clients, rows, columns."""

import dataclasses
import functools
from collections.abc import Callable, Iterator

from fedloom.checking.case import Case
from fedloom.checking.federations import Trial
from fedloom.checking.laws import Law
from fedloom.checking.trying import broken
from fedloom.checking.verdicts import BrokenLawError, InapplicableError
from fedloom.data.clients import from_arrays
from fedloom.data.parties import Parties
from fedloom.errors import FedloomError

_FEW = (1, 2, 3)


def shrunk(law: Law, case: Case, error: BrokenLawError) -> tuple[Case, BrokenLawError]:
    """Greedily smaller cases, the smallest first, while the law is broken in the same way."""
    for axis in (_rounds, _clients, _rows, _columns):
        for smaller in axis(case):
            still = _still(law, smaller, error)
            if still is not None:
                case, error = smaller, still
                break
    return case, error


def _still(law: Law, case: Case, error: BrokenLawError) -> BrokenLawError | None:
    try:
        found, _ = broken(law, case)
    except InapplicableError:
        return None
    # A federation may be too small for the method: an error of another kind, or at another line.
    return found if found is not None and _kind(found) == _kind(error) else None


def _kind(error: BrokenLawError) -> tuple[type, str | None]:
    return type(error.__cause__), error.line


def _rounds(case: Case) -> Iterator[Case]:
    for rounds in range(1, case.rounds):
        yield dataclasses.replace(case, rounds=rounds)


def _clients(case: Case) -> Iterator[Case]:
    for count in range(1, len(case.trial.clients)):
        yield from _with(case, functools.partial(Trial.of, order=range(count)))


def _rows(case: Case) -> Iterator[Case]:
    clients = case.trial.clients
    most = clients.rows if isinstance(clients, Parties) else int(clients.sizes.max())
    for count in _FEW:
        if count < most:
            yield from _with(case, functools.partial(_cut, rows=count))


def _columns(case: Case) -> Iterator[Case]:
    clients = case.trial.clients
    wide = max(clients.widths) if isinstance(clients, Parties) else clients.train.x.shape[-1]
    for count in _FEW:
        if count < wide:
            yield from _with(case, functools.partial(_cut, columns=count))


def _with(case: Case, change: Callable[[Trial], Trial]) -> Iterator[Case]:
    try:
        yield dataclasses.replace(case, trial=change(case.trial))
    except FedloomError:
        return  # clients that cannot be so small


def _cut(trial: Trial, rows: int | None = None, columns: int | None = None) -> Trial:
    """The first rows and columns of every client."""
    clients = trial.clients
    if isinstance(clients, Parties):
        blocks = tuple(block[:rows, :columns] for block in clients.features)
        return trial._replace(
            clients=Parties(blocks, clients.y[:rows], clients.names, clients.labels)
        )
    parts = [clients.of(i) for i in range(len(clients))]
    return trial._replace(
        clients=from_arrays(
            [(part.x[:rows, ..., :columns], part.y[:rows]) for part in parts], names=clients.names
        )
    )
