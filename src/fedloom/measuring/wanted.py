"""Which metrics a run asks for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedloom.errors import ParameterError
from fedloom.measuring.optimum import NEED_OPTIMUM
from fedloom.problems.base import Metric, Problem


class Wanted(NamedTuple):
    """Which metrics a run asks for; static, a part of the compiled program."""

    of_clients: tuple[str, ...]
    of_the_whole: tuple[str, ...]
    own: tuple[tuple[str, Metric], ...]  # the user's own, as they were passed

    def at(self, problem: Problem) -> dict[str, Metric]:
        """The metrics of clients, as a problem defines them."""
        known = {**problem.metrics(), **dict(self.own)}
        return {name: known[name] for name in self.of_clients}


def chosen_from(
    names: Sequence[str] | Mapping[str, Metric | None] | None,
    problem: Problem,
    has_optimum: bool,
    of_the_whole: tuple[str, ...],
) -> Wanted:
    """Check the names of metrics; None stands for the problem's own, `of_the_whole` adds some.

    In a mapping, None stands for the metric that a name has without it.
    """
    passed = names if isinstance(names, Mapping) else {}
    own = tuple((name, metric) for name, metric in passed.items() if metric is not None)
    for name, metric in own:
        if not isinstance(metric, Metric):
            raise ParameterError(
                f"metrics must say of {name!r} which way it should go; got {metric!r}. "
                f"Write metrics={{{name!r}: fl.Metric(function, larger_is_better=True)}}, or False."
            )
    known = (*problem.metrics(), *(name for name, _ in own))
    chosen = tuple(names) if names is not None else known
    for name in chosen:
        if name not in (*known, *of_the_whole):
            raise ParameterError(
                f"metrics must be among {', '.join((*known, *of_the_whole))}; got {name!r}. "
                f"Choose one of these, or pass one of your own: "
                f"metrics={{{name!r}: fl.Metric(function, larger_is_better=True)}}."
            )
        if name in NEED_OPTIMUM and not has_optimum:
            raise ParameterError(
                f"metric {name!r} needs a known optimum; none was given. "
                f"Pass optimum=..., a model or its vector."
            )
    return Wanted(
        tuple(name for name in chosen if name in known),
        tuple(name for name in chosen if name not in known),
        own,
    )
