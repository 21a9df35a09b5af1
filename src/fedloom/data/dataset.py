"""A dataset: features, labels, and the columns by which it may be divided."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Rows of features with labels, in one place, before they are divided over clients."""

    name: str  # what it is called in tables
    x: Any  # (rows, ...) array; a scipy CSR array where features are sparse; whole numbers: tokens
    y: np.ndarray  # (rows,) classes 0, 1, ... as whole numbers; other numbers make a regression
    labels: np.ndarray | None = None  # what the classes are called; None: a regression
    columns: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # to divide by
    features: tuple[str, ...] = ()  # names of the features, where they have names
    test: "Dataset | None" = None  # test rows, where it comes with some

    def __len__(self) -> int:
        return len(self.y)
