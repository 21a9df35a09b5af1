"""Metrics with secure sums: those of all sites are summed, and the server gets only their means.

A sum of metrics is an exchange of its own after those of the round, with the model as its question.
For every metric a site adds its value and a one; for what is taken over the rows of all sites, its
sum over rows and the number of rows. A site that has too few rows to tell a metric drops out: with
nothing to add it would make a sum of others look as if it were of one site more.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.errors import UnopenedError
from fedloom.exchange.hub import Letter
from fedloom.exchange.secure.hub import SecureHub
from fedloom.metrics.chosen import ROWS, Wanted
from fedloom.metrics.ready import ROW_NUMBERS, made_of, means_behind

MEASURE = "measure"  # what such an exchange asks for, in the place of a method
KINDS = ("plain", "weighted")  # the sums that are taken
OBJECTIVE = "value"  # a site's part of the objective
_THOUSAND = 1024.0  # rows are counted by it, so that sums over many stay within the secure ring


def names_of(wanted: Wanted) -> tuple[str, ...]:
    """The numbers that are summed, in their order."""
    parts = (OBJECTIVE,) if "objective" in wanted.of_the_whole else ()
    by_rows = (name + ROWS for name in wanted.of_clients)
    return (*wanted.of_clients, *by_rows, *means_behind(wanted.pooled), *parts)


def part(told: Mapping[str, Any], names: tuple[str, ...]) -> np.ndarray:
    """What a site adds to the sum."""

    def pair(name: str) -> tuple[float, float]:
        by_rows = name in ROW_NUMBERS or name not in told
        value = told[name if name in told else name.removesuffix(ROWS)]
        if value is None:
            raise UnopenedError(
                f"it has too few test rows to tell {name!r}, and the sum would be of the others "
                f"alone"
            )
        weight = told["rows"] / _THOUSAND if by_rows else 1.0
        return value * weight, weight

    return np.array([pair(name) for name in names], np.float64)


def means(hub: SecureHub, model: bytes, wanted: Wanted) -> dict[str, float]:
    """Each metric's mean over the sites or rows, and the weighted mean of the objective's parts."""
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
        return _named(dict.fromkeys(names, np.nan), wanted)
    plain, weighted = total.reshape(len(KINDS), len(names), 2)
    weight = float(np.asarray(hub.fed.weights, float)[arrived].sum())
    found = {
        name: float(value / count) if count else np.nan
        for name, (value, count) in zip(names, plain, strict=True)
    }
    if OBJECTIVE in names:
        found[OBJECTIVE] = float(weighted[names.index(OBJECTIVE), 0] / weight)
    return _named(found, wanted)


def _named(found: dict[str, float], wanted: Wanted) -> dict[str, float]:
    """The metrics by name, in the place of the means that they are made of."""
    means = {name: value for name, value in found.items() if name not in ROW_NUMBERS}
    return means | {name: made_of(name, found) for name in wanted.pooled}
