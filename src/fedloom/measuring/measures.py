"""How a federation is measured: by clients that hold rows, or by parties that hold columns."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fedloom.measuring.optimum import Optimum
from fedloom.metrics.chosen import Wanted
from fedloom.population import Federation
from fedloom.problems.base import Metric, Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Tree


class Measures(Protocol):
    """The functions by which an engine evaluates a run."""

    def choose(
        self,
        names: Sequence[str] | Mapping[str, Metric | None] | None,
        problem: Problem,
        has_optimum: bool,
    ) -> Wanted:
        """Check the names of metrics; None stands for the problem's own."""

    def whole_model(
        self, algorithm: Algorithm, federation: Federation, hub: Tree, clients: tuple[Tree, ...]
    ) -> Array:
        """The model that the run leaves, as a vector."""

    def measure(
        self,
        algorithm: Algorithm,
        federation: Federation,
        hub: Tree,
        clients: tuple[Tree, ...],
        plan: Plan,
        wanted: Wanted,
    ) -> dict[str, Any]:
        """The raw numbers of an evaluation, as one program."""

    def per_client(
        self, raw: dict[str, Any], federation: Federation, wanted: Wanted
    ) -> dict[str, np.ndarray]:
        """The values of each client or party."""

    def summarise(
        self,
        raw: dict[str, Any],
        clients: Mapping[str, np.ndarray],
        federation: Federation,
        wanted: Wanted,
        optimum: Optimum | None,
    ) -> dict[str, float]:
        """One row of the history."""

    def optimum_of(
        self, federation: Federation, vector: np.ndarray, plan: Plan, dual: str
    ) -> Optimum:
        """A known solution with its objective."""
