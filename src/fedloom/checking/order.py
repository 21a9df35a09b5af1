"""Clients have no order: numbering them otherwise changes nothing but rounding."""

import dataclasses
from typing import Any

import jax
import numpy as np

from fedloom.checking.case import Case
from fedloom.checking.verdicts import BrokenLawError, InapplicableError, close
from fedloom.errors import FedloomError
from fedloom.protocol import Algorithm

# Values with which everyone takes part and nothing is drawn, for fields with these names.
_UNDRAWN = {
    "cohort": None,
    "stragglers": 0,
    "noise": 0.0,
    "drop": 0.0,
    "late": 0.0,
    "columns": 100,
}


def is_irrelevant(case: Case) -> str:
    """With everyone taking part and full gradients, numbering clients otherwise changes nothing."""
    n = len(case.trial.clients)
    if n < 2:
        raise InapplicableError("one client has no order")
    order = (*range(1, n), 0)
    drawn = dataclasses.replace(case, method=undrawn(case.method), batch_size=None)
    turned = dataclasses.replace(drawn, trial=case.trial.of(order))
    try:
        close(
            "numbered otherwise (got), the same clients lead to another model. The number of a "
            "client must mean nothing",
            *(one.simulate(metrics=()).model for one in (drawn, turned)),
            tolerance=(1e-10, 1e-12),
            root="model",
            where=f"round {case.rounds}, clients in the order {order}",
        )
    except BrokenLawError:
        if _draws(drawn):
            raise InapplicableError(
                "it draws even where everyone takes part and gradients are full, so that clients "
                "that are numbered otherwise draw other numbers"
            ) from None
        raise
    return f"{n} clients in the order {', '.join(map(str, order))}"


def undrawn(method: Algorithm) -> Algorithm:
    """The method with everyone taking part, as far as its parameters say who does."""
    made: Any = method
    for field in dataclasses.fields(made):
        inner = getattr(made, field.name)
        value = undrawn(inner) if isinstance(inner, Algorithm) else inner
        try:
            made = dataclasses.replace(made, **{field.name: _UNDRAWN.get(field.name, value)})
        except FedloomError:
            continue  # the field means something else here
    return made


def _draws(case: Case) -> bool:
    """Whether the outcome of a round depends on the seed."""
    first = case.simulate(rounds=1)
    ends = [case.simulate(seed=s, rounds=case.rounds + 1, resume=first) for s in (0, 1)]
    same = jax.tree.map(np.array_equal, *(end.model for end in ends))
    return not all(jax.tree.leaves(same))
