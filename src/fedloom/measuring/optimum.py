"""A known solution, and how far a model is from it."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.types import Array

TO_A_POINT = ("distance", "optimality")  # mean little where there are several solutions
_ROUNDING = 1e-13


class Optimum(NamedTuple):
    """A solution as a vector, with its objective."""

    vector: np.ndarray
    value: float
    drop: float  # how far the objective falls from the zero model; infinite if that is not allowed

    def measure(self, name: str, model: np.ndarray, objective: float | None) -> float:
        """One of the metrics that need an optimum; those of the gap need the model's objective."""
        if name in TO_A_POINT:
            distance = float(np.linalg.norm(model - self.vector))
            return distance if name == "distance" else distance / float(np.linalg.norm(self.vector))
        assert objective is not None
        gap = float(objective) - self.value
        return gap if name == "gap" else gap / self.drop

    def check(self, metrics: Iterable[str]) -> None:
        """Refuse metrics relative to a zero model that is the optimum or breaks a constraint."""
        at_zero = np.linalg.norm(self.vector) <= _ROUNDING
        no_drop = self.drop <= _ROUNDING * (1 + abs(self.value))
        optimal = "is the optimum of this problem", ", or a weaker regulariser"
        broken = "violates a constraint of this problem", ""
        for name, plain, undefined, (why, otherwise) in (
            ("optimality", "distance", at_zero, optimal),
            ("relative_gap", "gap", no_drop, optimal),
            ("relative_gap", "gap", not np.isfinite(self.drop), broken),
        ):
            if name in metrics and undefined:
                raise ParameterError(
                    f"metric {name!r} is relative to the zero model, which {why}. "
                    f"Use {plain!r}{otherwise}."
                )


def optimum_at(vector: np.ndarray, objective: Callable[[Array], Array]) -> Optimum:
    """A known solution, with what the objective is there and at the zero model."""
    w = jnp.asarray(vector)
    best = float(objective(w))
    return Optimum(np.asarray(vector, float), best, float(objective(jnp.zeros_like(w))) - best)
