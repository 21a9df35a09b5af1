"""What a curve of a reproduction's picture is drawn from: values of all seeds against a cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedloom.experiments.raw_results import Run

_FLOOR = 1e-5  # of a distance: the last digit that raw results have
_ROUNDING = 1e-15  # of a relative gap: smaller ones are none
_NEAR_ROUNDING = 1e-12
Cost = Callable[[Mapping[str, float]], float]  # of a row of the history


class Series(NamedTuple):
    """A method's values by seed and cost, and where runs diverged."""

    x: np.ndarray
    y: np.ndarray  # a row for each seed; nan from where on a run has diverged
    diverged: list[tuple[float, float]]  # the last evaluation of runs that did
    evaluations: int  # of a run, whether or not all of them are of use

    @property
    def mean(self) -> np.ndarray:
        """Over the seeds that are left."""
        return np.nanmean(self.y, 0) if self.y.size else self.x

    @property
    def low(self) -> np.ndarray:
        """The smallest of them."""
        return np.nanmin(self.y, 0)

    @property
    def high(self) -> np.ndarray:
        """The largest of them."""
        return np.nanmax(self.y, 0)

    def distance(self, optimum: float | None) -> "Series":
        """The distance to an optimum; nothing where it is not known."""
        if optimum is None:
            return self._replace(x=self.x[:0], y=self.y[:, :0], diverged=[])
        far = [(x, max(abs(y - optimum), _FLOOR)) for x, y in self.diverged]
        return self._replace(y=np.maximum(np.abs(self.y - optimum), _FLOOR), diverged=far)

    def above_rounding(self) -> "Series":
        """Without its end, where it is known to rounding only."""
        if not (self.high < _ROUNDING).any():
            return self
        end = int(np.argmax(self.high < _ROUNDING))
        end += self.high[max(end - 1, 0)] < _NEAR_ROUNDING  # in single precision it ends before
        return self._replace(x=self.x[:end], y=np.maximum(self.y[:, :end], _ROUNDING))


def series(runs: Sequence[Run], metric: str, cost: Cost) -> Series:
    """Of the seeds of a method, at the evaluations of the longest run.

    A run that reached its end earlier keeps its last value, as in tables. One that diverged is
    left out from there on.
    """
    histories = [{row["round"]: row for row in run.rows if metric in row} for run in runs]
    rounds = list(max(histories, key=len))
    at = [[history[number] for history in histories if number in history] for number in rounds]
    x = np.array([np.mean([cost(row) for row in rows]) for rows in at])
    y = np.full((len(runs), len(rounds)), np.nan)
    diverged = []
    for values, run, history in zip(y, runs, histories, strict=True):
        last = history[max(history)]
        for i, number in enumerate(rounds):
            if number in history:
                values[i] = history[number][metric]
            elif number > last["round"] and run.status != "diverged":
                values[i] = last[metric]
        if run.status == "diverged":
            diverged.append((cost(last), last[metric]))
    return Series(x, y, diverged, len(rounds))
