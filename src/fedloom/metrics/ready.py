"""Metrics of all scores and labels that are ready by name.

Each is taken over the rows of all clients together, and over those of each client. Some are made of
means over rows, `means`, which suffice where no scores may be seen; the others need all scores.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fedloom.errors import ParameterError
from fedloom.metrics import classification, regression
from fedloom.metrics.links import (
    DECISIONS,
    GIVES,
    PROBABILITIES,
    RANKS,
    VALUES,
    VIEWS,
    flat,
)
from fedloom.problems.base import Metric, Problem

Array = np.ndarray
RowNumbers = Callable[[Array, Array], np.ndarray]


class Ready(NamedTuple):
    """A metric of all scores and labels."""

    larger_is_better: bool
    takes: str  # what of the scores it looks at, such as "probabilities"
    function: Callable[[Array, Array], float]
    means: tuple[str, ...] = ()  # the means over rows that it can be made of, by name
    finish: Callable[..., float] = float  # makes it of them


ROW_NUMBERS: Mapping[str, RowNumbers] = {
    "absolute_error": regression.absolute_error,
    "squared_error": regression.squared_error,
    "label": lambda values, labels: labels,
    "squared_label": lambda values, labels: labels**2,
    "brier": classification.brier,
    "log_loss": classification.log_loss,
}


def _mean(takes: str, name: str, finish: Callable[[float], float] = float) -> Ready:
    """A metric that follows from one mean over rows; the smaller the better."""

    def function(view: Array, labels: Array) -> float:
        return finish(float(ROW_NUMBERS[name](view, labels).mean()))

    return Ready(False, takes, function, (name,), finish)


def _root(mean: float) -> float:
    return math.sqrt(max(mean, 0.0))  # a site's noise may make it negative


READY: Mapping[str, Ready] = {
    "f1": Ready(True, DECISIONS, classification.f1),
    "balanced_accuracy": Ready(True, DECISIONS, classification.balanced_accuracy),
    "average_precision": Ready(True, RANKS, classification.average_precision),
    "auc": Ready(True, RANKS, classification.auc),
    "calibration_error": Ready(False, PROBABILITIES, classification.calibration_error),
    "brier": _mean(PROBABILITIES, "brier"),
    "log_loss": _mean(PROBABILITIES, "log_loss"),
    "rmse": _mean(VALUES, "squared_error", _root),
    "mae": _mean(VALUES, "absolute_error"),
    "r2": Ready(
        *(True, VALUES, regression.r2),
        means=("squared_error", "label", "squared_label"),
        finish=regression.r2_of_means,
    ),
}


def metric_of(name: str, problem: Problem) -> Metric:
    """A ready metric, as a function of a problem's scores and labels."""
    ready, link = READY[name], _link_for(name, problem)

    def function(scores: Array, labels: Array) -> float:
        scores, labels = flat(scores, labels, link)
        if not len(labels) or not np.isfinite(scores).all():
            return math.nan
        return ready.function(VIEWS[ready.takes](scores, link), labels)

    return Metric(function, ready.larger_is_better, of="scores")


def means_of(
    names: Iterable[str], problem: Problem, scores: Array, labels: Array
) -> dict[str, float]:
    """The means over some rows, at least one, that metrics can be made of."""
    found: dict[str, float] = {}
    for name in names:
        link = _link_for(name, problem)
        flat_scores, flat_labels = flat(scores, labels, link)
        view = VIEWS[READY[name].takes](flat_scores, link)
        for mean in READY[name].means:
            found[mean] = float(np.mean(ROW_NUMBERS[mean](view, flat_labels), dtype=np.float64))
    return found


def made_of(name: str, means: Mapping[str, float]) -> float:
    """A metric from means over rows; nan where one of them is not known."""
    known = [means.get(mean, math.nan) for mean in READY[name].means]
    return READY[name].finish(*known) if np.isfinite(known).all() else math.nan


def means_behind(names: Iterable[str]) -> tuple[str, ...]:
    """The means that metrics can be made of, each once."""
    return tuple(dict.fromkeys(mean for name in names for mean in READY[name].means))


def needing_scores(names: Iterable[str]) -> tuple[str, ...]:
    """Those of some metrics that need the scores of single rows."""
    return tuple(name for name in names if name in READY and not READY[name].means)


def available(problem: Problem) -> tuple[str, ...]:
    """The ready metrics that fit a problem."""
    return tuple(name for name, ready in READY.items() if ready.takes in GIVES[problem.link])


def _link_for(name: str, problem: Problem) -> str:
    """What a problem's scores say; raises ParameterError where it is not what a metric looks at."""
    link, kind = problem.link, type(problem).__name__
    if link is None and name == "auc":
        return "sign"  # the order of scores is all that it looks at
    if link is not None and READY[name].takes in GIVES[link]:
        return link
    if link is None:
        why = f"needs to know what scores mean, which {kind} does not say"
    elif READY[name].takes == VALUES:
        why = f"is for regression, and {kind} classifies"
    elif link == "identity":
        why = f"is for classification, and {kind} is a regression"
    else:
        why = f"needs probabilities, and the scores of {kind} are none"
    fitting = ", ".join(available(problem)) or "the problem's own"
    raise ParameterError(
        f"metric {name!r} {why}. Choose among {fitting}, or pass one of your own: "
        f'metrics={{{name!r}: fl.Metric(function, larger_is_better=..., of="scores")}}.'
    )
