"""Which metrics a run asks for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedloom.directions import base, shown
from fedloom.errors import ParameterError
from fedloom.hints import closest
from fedloom.measuring.optimum import NEED_OPTIMUM
from fedloom.metrics.ready import READY, available, metric_of
from fedloom.problems.base import Metric, Problem
from fedloom.problems.vertical import Vertical

OF = ("rows", "scores")  # what a metric may be of


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
