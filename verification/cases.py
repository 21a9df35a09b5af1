"""A case: one federation that is drawn, run on all engines and compared; and who holds what in it.

Everything in a case prints as the Python that makes it, so that a report can be run.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

import fedloom as fl
from fedloom.data.parties import Holders
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm


class OfRows(NamedTuple):
    """Clients with rows of their own, unlike each other."""

    sizes: tuple[int, ...]
    width: int
    classes: int  # 0: labels are numbers
    seed: int

    def parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Features and labels of each client; every class occurs somewhere."""
        rng = np.random.default_rng(self.seed)
        total, n = sum(self.sizes), len(self.sizes)
        # Scaled so that the curvature of the losses is about one, whatever the width.
        shift = np.repeat(np.arange(n) / n, self.sizes)[:, None]
        x = (rng.normal(size=(total, self.width)) + shift) / np.sqrt(self.width)
        if self.classes:
            y = rng.integers(0, self.classes, total)
            y[rng.permutation(total)[: self.classes]] = np.arange(self.classes)
        else:
            y = rng.normal(size=total)
        cuts = np.cumsum(self.sizes)[:-1]
        return list(zip(np.split(x, cuts), np.split(y, cuts), strict=True))

    def build(self) -> Holders:
        """The clients."""
        return fl.data.from_arrays(self.parts())


class OfMatrices(NamedTuple):
    """Clients whose rows carry the coefficients of a bilinear saddle."""

    sizes: tuple[int, ...]
    primal: int
    dual: int
    seed: int

    def build(self) -> Holders:
        """The clients."""
        rng = np.random.default_rng(self.seed)
        sides = (self.primal, self.dual)
        return fl.data.from_arrays(
            [(rng.normal(size=(m, *sides)) / 2, rng.normal(size=(m, sum(sides))))
             for m in self.sizes]
        )  # fmt: skip


class OfColumns(NamedTuple):
    """Parties with columns of the same rows."""

    rows: int
    widths: tuple[int, ...]
    classes: int  # 0: labels are numbers
    seed: int

    def parts(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Each party's columns, and the labels; every class occurs."""
        rng = np.random.default_rng(self.seed)
        scale = np.sqrt(self.rows * sum(self.widths))
        blocks = [2 * rng.normal(size=(self.rows, width)) / scale for width in self.widths]
        if not self.classes:
            return blocks, rng.normal(size=self.rows)
        y = rng.integers(0, self.classes, self.rows)
        y[rng.permutation(self.rows)[: self.classes]] = np.arange(self.classes)
        return blocks, y

    def build(self) -> Holders:
        """The parties."""
        return fl.data.from_parties(*self.parts())


Data = OfRows | OfMatrices | OfColumns


@dataclasses.dataclass(frozen=True)
class Case:
    """A method on a problem over clients, and how it is run."""

    key: str
    method: Algorithm
    problem: Problem
    data: Data
    batch_size: int | None = 4
    rounds: int = 3
    stop: int = 1  # the round after which a run is stopped and resumed
    devices: int = 1
    precision: str = "float64"
    seed: int = 0
    listed: bool = False  # whether it is one that the method's transcription can run

    @property
    def lanes(self) -> int | None:
        """One client at a time where several devices are to have something to divide."""
        return 1 if self.devices > 1 else None

    def snippet(self, check: str | None = None) -> str:
        """A program that repeats the comparison."""
        fields = "\n".join(
            f"    {field.name}={getattr(self, field.name)!r}," for field in dataclasses.fields(self)
        )
        return (
            f"# python - <<'END' in the repository's folder\n"
            f"from verification.replay import *\n\n"
            f"case = Case(\n{fields}\n)\n"
            f"replay(case, only={check!r})\n"
        )
