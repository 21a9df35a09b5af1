"""Metrics where replies are summed securely: each site's go into a sum, and means come out of it.

A sum of metrics is an exchange of its own after those of the round, with the model as its question.
For every metric a site adds its value and a one, or two zeros where it has no rows to take it on.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.errors import UnopenedError
from fedloom.exchange.hub import Letter
from fedloom.exchange.secure.hub import SecureHub
from fedloom.measuring.wanted import Wanted

MEASURE = "measure"  # what such an exchange asks for, in the place of a method
KINDS = ("plain", "weighted")  # the sums that are taken
OBJECTIVE = "value"  # a site's part of the objective


def names_of(wanted: Wanted) -> tuple[str, ...]:
    """The numbers that are summed, in their order."""
    parts = (OBJECTIVE,) if "objective" in wanted.of_the_whole else ()
    return (*wanted.of_clients, *parts)


def part(told: Mapping[str, Any], names: tuple[str, ...]) -> np.ndarray:
    """What a site adds to the sum."""
    pairs = [(0.0, 0.0) if told[name] is None else (told[name], 1.0) for name in names]
    return np.array(pairs, np.float64)


def means(hub: SecureHub, model: bytes, wanted: Wanted) -> dict[str, float]:
    """Each metric's mean over the sites, and the weighted mean of the objective's parts."""
    names = names_of(wanted)
    if not names:
        return {}
    stage = "opening" if hub.round == 0 else "round"
    exchange = len(hub.sums[stage]) + 1
    everyone = range(hub.fed.n)
    letters = {
        id: Letter(MEASURE, model, hub.round, exchange, len(everyone), hub.ages[id])
        for id in everyone
    }
    try:
        arrived, total = hub.summed(letters, model, 2 * len(KINDS) * len(names))
    except UnopenedError as error:
        hub.report(f"the metrics of round {hub.round} are not known: {error}")
        return dict.fromkeys(names, np.nan)
    plain, weighted = total.reshape(len(KINDS), len(names), 2)
    weight = float(np.asarray(hub.fed.weights, float)[arrived].sum())
    found = {
        name: float(value / count) if count else np.nan
        for name, (value, count) in zip(names, plain, strict=True)
    }
    if OBJECTIVE in names:
        found[OBJECTIVE] = float(weighted[names.index(OBJECTIVE), 0] / weight)
    return found
