"""What a site tells of the scores of its rows: means over them, or the scores of each class."""

from typing import Any

import numpy as np

from fedloom.measuring.wanted import Wanted
from fedloom.metrics.links import flat
from fedloom.metrics.ready import means_behind, means_of, needing_scores
from fedloom.problems.base import Problem

Facts = dict[str, Any]
Scored = tuple[np.ndarray, np.ndarray]  # scores and labels


class OwnScores:
    """The scores of a site's own rows, as they were measured."""

    def __init__(self, raw: dict[str, Any], rows: int, wanted: Wanted, problem: Problem):
        self.rows, self.wanted, self.problem = rows, wanted, problem
        self.scored: Scored | None = None
        if wanted.pooled:  # without padding
            self.scored = raw.pop("outputs")[0][:rows], raw.pop("targets")[0][:rows]

    def means(self, least: int) -> Facts:
        """The means that metrics can be made of and the number of rows; none of fewer than some."""
        names = means_behind(self.wanted.pooled)
        if not names and not self.wanted.of_clients:
            return {}
        if self.rows < max(least, 1):
            return dict.fromkeys((*names, "rows"))
        from_means = [name for name in self.wanted.pooled if not needing_scores([name])]
        made = means_of(from_means, self.problem, *self.scored) if self.scored else {}
        return {**made, "rows": self.rows}

    def by_class(self, classes: int, least: int) -> tuple[np.ndarray, ...]:
        """The scores of each class, sorted, so that none is of a certain row; none of few rows."""
        if self.scored is None or not needing_scores(self.wanted.pooled):
            return ()
        scores, labels = self.scored
        link = self.problem.link or "sign"
        dtype = scores.dtype
        scores, labels = flat(scores, labels, link)
        if self.rows < least:
            scores, labels = scores[:0], labels[:0]
        return tuple(_sorted(scores[labels == one].astype(dtype)) for one in range(classes))


def _sorted(scores: np.ndarray) -> np.ndarray:
    """Scores in their order; rows of several by the first, then by the next."""
    if scores.ndim == 1:
        return np.sort(scores)
    return scores[np.lexsort(scores.T[::-1])]
