"""What a site tells of the scores of its rows: means over them, or the scores of each class."""

from typing import Any

import numpy as np

from fedloom.errors import ParameterError
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
        self.ranked = self._taken(raw, "scores", "labels") if _ranks(wanted) else None
        self.scored = self._taken(raw, "outputs", "targets") if wanted.pooled else None

    def _taken(self, raw: dict[str, Any], scores: str, labels: str) -> Scored:
        """Two of the arrays that were measured, without padding."""
        taken = raw.pop(scores)[0], raw.pop(labels)[0]
        return taken[0][: self.rows], taken[1][: self.rows]

    def means(self, least: int) -> Facts:
        """The means that metrics can be made of and the number of rows; none of fewer than some."""
        names = means_behind(self.wanted.pooled)
        if self.scored is None or not names:
            return {}
        if self.rows < max(least, 1):
            return dict.fromkeys((*names, "rows"))
        from_means = [name for name in self.wanted.pooled if not needing_scores([name])]
        return {**means_of(from_means, self.problem, *self.scored), "rows": len(self.scored[1])}

    def by_class(self, classes: int, least: int) -> tuple[np.ndarray, ...]:
        """The scores of each class, sorted, so that none is of a certain row; none of few rows."""
        scored = self.scored if needing_scores(self.wanted.pooled) else self.ranked
        if scored is None:
            return ()
        scores, labels = scored
        if _ranks(self.wanted) and scores.size != labels.size:
            raise ParameterError(
                "metric 'auc' needs labels of 2 classes and one score a row; this problem gives "
                "several scores a row. Use accuracy instead."
            )
        link = self.problem.link or "sign"
        dtype = scores.dtype
        scores, labels = flat(scores, labels, link)
        if self.rows < least:
            scores, labels = scores[:0], labels[:0]
        return tuple(_sorted(scores[labels == one].astype(dtype)) for one in range(classes))


def _ranks(wanted: Wanted) -> bool:
    return "auc" in wanted.of_the_whole


def _sorted(scores: np.ndarray) -> np.ndarray:
    """Scores in their order; rows of several by the first, then by the next."""
    if scores.ndim == 1:
        return np.sort(scores)
    return scores[np.lexsort(scores.T[::-1])]
