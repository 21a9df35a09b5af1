"""The part of a result that pictures and tables need."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Shown(Protocol):
    """A run as pictures and tables need it; `Result` is one."""

    @property
    def rows(self) -> Sequence[Mapping[str, float]]:
        """One for each evaluation."""

    @property
    def final(self) -> Mapping[str, float]:
        """The last of them."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Method, problem, seed, ..."""

    @property
    def client_names(self) -> Sequence[str]:
        """Who took part."""

    @property
    def status(self) -> str:
        """How it ended."""


def evaluations(runs: Sequence[Any]) -> list[list[Mapping[str, float]]]:
    """The rows of all runs at each round in which all of them were evaluated.

    A run that ended early was evaluated once more where it ended, where the others were not.
    """
    seen = [{row["round"]: row for row in run.rows} for run in runs]
    return [[rows[at] for rows in seen] for at in seen[0] if all(at in rows for rows in seen)]
