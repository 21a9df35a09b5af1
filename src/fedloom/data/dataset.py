"""A dataset: features, labels, and the columns by which it may be divided."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fedloom.data.tokens import Tokeniser


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Rows of features with labels, before they are divided over clients."""

    name: str  # what it is called in tables
    x: Any  # (rows, ...) array; a scipy CSR array where features are sparse; whole numbers: tokens
    y: np.ndarray  # (rows,) classes 0, 1, ... as whole numbers; other numbers make a regression
    labels: np.ndarray | None = None  # what the classes are called; None: a regression
    columns: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # to divide by
    features: tuple[str, ...] = ()  # names of the features, where they have names
    test: "Dataset | None" = None  # test rows, where it comes with some
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # columns, and why
    tokeniser: "Tokeniser | None" = None  # how texts became rows, where they were texts

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        """How much there is, and none of it."""
        told = [described(len(self), self.x.shape[1:], self.labels)]
        told += [] if self.test is None else [f"{len(self.test)} test rows"]
        told += left_out_text(self.left_out)
        return f"Dataset({self.name!r}: {', '.join(told)})"


def described(rows: int, shape: tuple[int, ...], labels: np.ndarray | None) -> str:
    """How many rows there are, of which width, with how many classes."""
    wide = f"{shape[0] if shape else 1} features" if len(shape) < 2 else f"shape {shape}"
    kind = "numbers to predict" if labels is None else f"{len(labels)} classes"
    return f"{rows} rows, {wide}, {kind}"


def left_out_text(left_out: Mapping[str, str]) -> list[str]:
    """Which columns of a table are not used as features, and why; empty if there are none."""
    return [f"left out: {'; '.join(f'{n} ({w})' for n, w in left_out.items())}"] if left_out else []
