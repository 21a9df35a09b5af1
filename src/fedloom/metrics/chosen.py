"""The metrics of a run: which are taken, which way each should go, which column is the main one.

A metric says itself whether larger is better: that of a problem or of a user in its `Metric`, any
other in the list of all metrics. A result carries the names of those of its metrics
that should grow, so that whoever reads it later needs no guess.

A metric of rows has two columns that sum it up: the mean over clients, under its name, and the mean
over all rows, with the ending "_rows". The main one is that by which the problem weighs clients.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedloom.errors import ParameterError
from fedloom.hints import closest
from fedloom.metrics.catalogue import CATALOGUE
from fedloom.metrics.ready import READY, available, metric_of, needing_scores
from fedloom.problems.base import Metric, Problem
from fedloom.problems.vertical import Vertical

ALWAYS = ("round", "seconds", "bytes_up", "bytes_down", "epsilon")  # columns that are no metrics
_TAKEN = (*ALWAYS, "client")  # the last is the first column of the table of clients
OF = ("rows", "scores")  # what a metric may be of
NEED_OPTIMUM = ("gap", "relative_gap", "distance", "optimality")
ROWS = "_rows"  # the ending of a metric's mean over all rows
PARTS = ("rows", "worst", "worst10", "best10", "std")  # endings of columns that summarise a metric
_SHOWN: Mapping[str | None, tuple[str, ...]] = {
    "identity": ("rmse", "mae", "r2"),
    "sign": ("auc",),
}


def shown(problem: Problem, *, one_label: bool = True) -> tuple[str, ...]:
    """The metrics of a problem if none are named; the first is the main one.

    These are the problem's own, the errors of a regression if a row has `one_label`, and the AUC of
    a problem that is about the order of scores.
    """
    more = _SHOWN.get(problem.link, ()) if one_label else ()
    return tuple(dict.fromkeys((*more, *problem.metrics())))


def shown_without_scores(problem: Problem) -> tuple[str, ...]:
    """As `shown`, for a network, where scores of rows leave a site only if metrics ask for them."""
    names = shown(problem)
    asking = needing_scores(names)
    return tuple(name for name in names if name not in asking)


def of_metrics(
    metrics: Iterable[str] | Mapping[str, Metric | None] | None, problem: Problem
) -> dict[str, bool]:
    """Whether larger is better, for each metric of a run; None stands for those that are shown."""
    passed = metrics if isinstance(metrics, Mapping) else {}
    own = {name: metric for name, metric in passed.items() if metric is not None}
    known = {**problem.metrics(), **own}
    chosen = shown(problem) if metrics is None else metrics
    said: Mapping[str, Any] = {**CATALOGUE, **known}
    return {name: name in said and said[name].larger_is_better for name in chosen}


def larger_is_better(column: str, directions: Mapping[str, bool]) -> bool:
    """Whether a column of the history should grow, such as "accuracy_worst" or "average_accuracy".

    Costs, such as bytes, and the spread of a metric over clients should not.
    """
    if column in directions:
        return directions[column]
    metric = base(column)
    if column.endswith("_std"):
        return False
    # The name of another model of the hub may stand before the metric's.
    fitting = [name for name in directions if f"_{metric}".endswith(f"_{name}")]
    return directions[max(fitting, key=len)] if fitting else False


def growing(columns: Iterable[str], directions: Mapping[str, bool]) -> list[str]:
    """The measured metrics of which larger is better, as a result stores them."""
    own = [column for column in columns if column in directions or column == base(column)]
    return [column for column in own if larger_is_better(column, directions)]


def grows(column: str, growing: Collection[str]) -> bool:
    """Whether larger values of a column are better, by the metrics that a result stores."""
    return column in growing or (base(column) in growing and not column.endswith("_std"))


def base(column: str) -> str:
    """The metric of a column: "accuracy" of "accuracy_worst"."""
    head, _, part = column.rpartition("_")
    return head if part in PARTS else column


def headline(
    metrics: Iterable[str] | Mapping[str, Metric | None] | None, problem: Problem
) -> str | None:
    """The main column of a run: of its first metric, as the problem weighs clients."""
    first = next(iter(shown(problem) if metrics is None else metrics), None)
    if first is None:
        return None
    return first + ROWS if _is_of(first, metrics, problem) == "rows" and by_rows(problem) else first


def columns(
    metrics: Iterable[str] | Mapping[str, Metric | None] | None, problem: Problem
) -> list[str]:
    """The columns that a history of some metrics has, without those of other models."""
    found: list[str] = []
    for name in shown(problem) if metrics is None else metrics:
        of = _is_of(name, metrics, problem)
        parts = {"rows": PARTS, "scores": PARTS[1:]}.get(of, ())
        found += [name, *(f"{name}_{part}" for part in parts if problem.kind != "vertical")]
    return found


def _is_of(name: str, metrics: Any, problem: Problem) -> str:
    """What a metric is of: "rows", all "scores", or the "whole" federation."""
    own = metrics.get(name) if isinstance(metrics, Mapping) else None
    known = own or problem.metrics().get(name)
    return known.of if known is not None else "scores" if name in READY else "whole"


def by_rows(problem: Problem) -> bool:
    """Whether a problem counts clients by their rows, so that its main figures are over rows.

    In a vertical problem every figure is over the rows that all parties share.
    """
    return problem.kind != "vertical" and problem.weights == "size"


class Wanted(NamedTuple):
    """Which metrics a run asks for; static, a part of the compiled program."""

    of_clients: tuple[str, ...]
    of_the_whole: tuple[str, ...]
    passed: tuple[tuple[str, Metric], ...]  # the user's, with their functions
    pooled: tuple[str, ...]  # of all scores and labels
    names: tuple[str, ...]  # all, in the order in which they were asked for

    def at(self, problem: Problem) -> dict[str, Metric]:
        """The metrics of clients, as a problem defines them."""
        known = {**problem.metrics(), **dict(self.passed)}
        return {name: known[name] for name in self.of_clients}

    def of_scores(self, problem: Problem) -> dict[str, Metric]:
        """The metrics of all scores and labels, as functions of a problem's scores."""
        known = {**problem.metrics(), **dict(self.passed)}
        return {name: known.get(name) or metric_of(name, problem) for name in self.pooled}

    def in_order(self, row: Mapping[str, float]) -> dict[str, float]:
        """The columns of these metrics in the order in which they were asked for."""

        def place(column: str) -> int:
            name = column if column in self.names else base(column)
            return self.names.index(name) if name in self.names else len(self.names)

        return {column: row[column] for column in sorted(row, key=place)}


def chosen_from(
    names: Sequence[str] | Mapping[str, Metric | None] | None,
    problem: Problem,
    has_optimum: bool,
    of_the_whole: tuple[str, ...],
) -> Wanted:
    """Check the names of metrics; None stands for those that are `shown`, `of_the_whole` adds some.

    In a mapping, None stands for the metric that a name has without it.
    """
    if isinstance(names, str):
        raise ParameterError(
            f"metrics must be a list of names, or a mapping; got the text {names!r}. "
            f'Write metrics = ["{names}"].'
        )
    unnamed = [name for name in names or () if not isinstance(name, str)]
    if unnamed:
        raise ParameterError(
            f"metrics must be named by texts; got {unnamed[0]!r}. One of your own has a name: "
            f'metrics={{"loss": None, "own": fl.Metric(function, larger_is_better=True)}}.'
        )
    given = names if isinstance(names, Mapping) else {}
    passed = tuple((name, metric) for name, metric in given.items() if metric is not None)
    for name, metric in passed:
        _check_passed(name, metric)
    defined = {**problem.metrics(), **dict(passed)}
    of_rows = tuple(name for name, metric in defined.items() if metric.of == "rows")
    of_scores = tuple(name for name, metric in defined.items() if metric.of == "scores")
    known = (*of_rows, *of_scores)
    chosen = tuple(names) if names is not None else shown(problem)
    for name in chosen:
        if name in READY and name not in known:
            metric_of(name, problem)  # raises where it does not fit
        elif name not in (*known, *of_the_whole):
            there = tuple(dict.fromkeys((*known, *available(problem), *of_the_whole)))
            raise ParameterError(
                f"metrics must be among those of {type(problem).__name__}, {', '.join(there)}; got "
                f"{name!r}. {_meant(name, there)}One of your own is passed with its function: "
                f"metrics={{{name!r}: fl.Metric(function, larger_is_better=True)}}."
            )
        if name in NEED_OPTIMUM and not has_optimum:
            raise ParameterError(
                f"metric {name!r} needs a known optimum; none was given. "
                f"Pass optimum=..., a model or its vector."
            )
    _check_columns(names, problem)
    pooled = tuple(n for n in chosen if n in of_scores or (n in READY and n not in known))
    if pooled and type(problem).predict is Problem.predict and not isinstance(problem, Vertical):
        raise ParameterError(
            f"metric {pooled[0]!r} needs scores of rows, and {type(problem).__name__} has none. "
            f"Choose another metric."
        )
    return Wanted(
        tuple(name for name in chosen if name in of_rows),
        tuple(name for name in chosen if name not in (*of_rows, *pooled)),
        passed,
        pooled,
        chosen,
    )


def _meant(name: str, there: Sequence[str]) -> str:
    """A question where a name comes close; the whole list stands before it anyway."""
    hint = closest(name, there)
    return f"{hint} " if hint.startswith("Did") else ""


def _check_columns(
    names: Sequence[str] | Mapping[str, Metric | None] | None, problem: Problem
) -> None:
    """Refuse a metric whose column would replace another one of the history."""
    own = columns(names if isinstance(names, Mapping) else dict.fromkeys(names or ()), problem)
    for column, times in Counter((*_TAKEN, *own)).items():
        if times > 1:
            raise ParameterError(
                f"metrics must have columns of their own; got a second {column!r}. Choose another "
                f"name: {', '.join(_TAKEN)} are no metrics, and a metric NAME also has the columns "
                f"{', '.join(f'NAME_{part}' for part in PARTS)}."
            )


def _check_passed(name: str, metric: object) -> None:
    if not isinstance(metric, Metric):
        raise ParameterError(
            f"metrics must say of {name!r} which way it should go; got {metric!r}. "
            f"Write metrics={{{name!r}: fl.Metric(function, larger_is_better=True)}}, or False."
        )
    if metric.of not in OF:
        raise ParameterError(
            f"metrics: {name!r} must be of one of {', '.join(OF)}; got of={metric.of!r}. "
            f'Write of="scores" for a function (scores, labels) -> float of all rows.'
        )
