"""Metrics with secure sums: those of all sites are summed, and the server gets only their means.

A sum of metrics is an exchange of its own after those of the round, with the model as its question.
For every metric a site adds its value, times how much the site counts, and how much that is. A site
that has too few rows to tell a metric drops out: with nothing to add it would make a sum of others
look as if it were of one site more.

Each metric has one such mean only: over rows where the problem weighs sites by their rows, or where
a metric is known by rows alone; else over sites. Of both, S = sum v_i and T = sum n_i v_i, whoever
knows the n_i could take one site's value: where all others have n rows, T - n S = (n_i - n) v_i.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.errors import RefusedError, UnopenedError
from fedloom.exchange.hub import Letter
from fedloom.exchange.secure.hub import SecureHub
from fedloom.metrics.chosen import ROWS, Wanted, by_rows
from fedloom.metrics.ready import ROW_NUMBERS, made_of, means_behind
from fedloom.problems.base import Problem

MEASURE = "measure"  # what such an exchange asks for, in the place of a method
KINDS = ("plain",)  # the sums that are taken
OBJECTIVE = "value"  # a site's part of the objective
_THOUSAND = 1024.0  # rows are counted by it, so that sums over many stay within the secure ring


def names_of(wanted: Wanted) -> tuple[str, ...]:
    """The numbers that are summed, in their order."""
    parts = (OBJECTIVE,) if "objective" in wanted.of_the_whole else ()
    return (*wanted.of_clients, *means_behind(wanted.pooled), *parts)


def over_rows(wanted: Wanted, problem: Problem) -> bool:
    """Whether means are over the rows of all sites; else sites count alike."""
    return by_rows(problem) or bool(wanted.pooled)


def check_one_weight(wanted: Wanted, problem: Problem) -> None:
    """Refuse metrics by which the same losses would be summed with two weights."""
    if "objective" in wanted.of_the_whole and over_rows(wanted, problem) != by_rows(problem):
        raise RefusedError(
            f"metrics: under secure aggregation 'objective', in which sites count alike, must not "
            f"come with {wanted.pooled[0]!r}, in which rows do, because both sums together could "
            f"tell those of one site. Leave one of them out, or set weights = 'size' in [problem]."
        )


def part(told: Mapping[str, Any], names: tuple[str, ...], rows: bool, weight: float) -> np.ndarray:
    """What a site of a weight adds to the sum, in which its rows count or the site itself."""

    def pair(name: str) -> tuple[float, float]:
        value = told[name]
        if value is None:
            raise UnopenedError(
                f"it has too few test rows to tell {name!r}, and the sum would be of the others "
                f"alone"
            )
        counts = weight if name == OBJECTIVE else told["rows"] / _THOUSAND if rows else 1.0
        return value * counts, counts

    return np.array([pair(name) for name in names], np.float64)


def means(hub: SecureHub, model: bytes, wanted: Wanted, problem: Problem) -> dict[str, float]:
    """Each metric's mean over the sites or rows, and the weighted mean of the objective's parts."""
    rows = over_rows(wanted, problem)
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
        _, total = hub.summed(letters, model, 2 * len(names))
    except UnopenedError as error:
        hub.report(f"the metrics of round {hub.round} are not known: {error}")
        total = np.zeros(2 * len(names))
    found = {
        name: float(value / count) if count else np.nan
        for name, (value, count) in zip(names, total.reshape(-1, 2), strict=True)
    }
    return _named(found, wanted, rows)


def _named(found: dict[str, float], wanted: Wanted, rows: bool) -> dict[str, float]:
    """The metrics by name, in the place of the means that they are made of."""
    means = {
        name + ROWS if rows and name in wanted.of_clients else name: value
        for name, value in found.items()
        if name not in ROW_NUMBERS
    }
    return means | {name: made_of(name, found) for name in wanted.pooled}
