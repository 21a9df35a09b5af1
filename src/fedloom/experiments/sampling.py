"""Optuna's sampler (TPE) as a search: what was judged so far decides what is tried next.

Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011. Settings are asked for
a few at a time, so that they can run side by side, and the sampler is seeded: asked again, with the
scores that are known told to it anew, it proposes the same. So a search needs no file of its own to
go on from.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from fedloom.experiments.searching import Setting, Values, ends
from fedloom.hints import needs

AT_ONCE = 4  # settings that are asked for before the first of them is judged


class Sampler:
    """Proposes settings of one method, and is told how good they were."""

    def __init__(self, over: Mapping[str, Values], seed: int, larger_is_better: bool):
        needs("optuna", "optuna")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.over = over
        with warnings.catch_warnings():
            # Settings that are still being judged count as bad ones, which is "experimental".
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self._worst = float("-inf") if larger_is_better else float("inf")
        directions = optuna.study.StudyDirection
        self._study = optuna.create_study(
            sampler=sampler,
            direction=directions.MAXIMIZE if larger_is_better else directions.MINIMIZE,
        )
        self._asked: list[Any] = []

    def ask(self, count: int) -> list[Setting]:
        """The next settings."""
        self._asked = [self._study.ask() for _ in range(count)]
        return [
            {field: _suggested(trial, field, values) for field, values in self.over.items()}
            for trial in self._asked
        ]

    def tell(self, scores: Sequence[float]) -> None:
        """The metric of each setting that was last asked for; nan where it diverged."""
        for trial, score in zip(self._asked, scores, strict=True):
            self._study.tell(trial, score if score == score else self._worst)


def _suggested(trial: Any, field: str, values: Values) -> Any:
    if isinstance(values, Mapping):
        low, high = ends(field, values)
        return trial.suggest_float(field, low, high, log=True)
    return values[trial.suggest_categorical(field, range(len(values)))]  # of any type
