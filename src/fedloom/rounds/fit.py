"""Whether a method is for a problem."""

from fedloom.errors import ParameterError
from fedloom.problems.base import Problem
from fedloom.problems.regularisers import Zero, is_constraint
from fedloom.protocol import Algorithm


def check_fit(algorithm: Algorithm, problem: Problem) -> None:
    """Raise ParameterError where a method is not for this kind of problem."""
    if algorithm.takes not in (problem.kind, *problem.also):
        raise ParameterError(
            f"{type(algorithm).__name__} is for {algorithm.takes} problems, and "
            f"{type(problem).__name__} is a {problem.kind} one. "
            f"`fedloom list algorithms` says which methods are for which problems."
        )
    name = type(algorithm).__name__
    if algorithm.takes_constraint and not is_constraint(problem.regulariser):
        raise ParameterError(
            f"{name} takes constraints (Box, Ball, Simplex) as the problem's regulariser; got "
            f"{problem.regulariser!r}. Use one of these, or remove it."
        )
    heeds = algorithm.takes_regulariser or algorithm.takes_constraint
    if not heeds and not isinstance(problem.regulariser, Zero):
        raise ParameterError(
            f"{name} takes no regulariser, and would ignore {problem.regulariser!r}. "
            f"Remove it from the problem, or choose a method of the composite family."
        )
