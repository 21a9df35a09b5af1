"""Who holds what: the rows of every client, one client after the other."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedloom.errors import DataError
from fedloom.rows import Rows


@dataclasses.dataclass(frozen=True)
class Clients:
    """The data of a federation, in flat arrays: client i holds `sizes[i]` rows in turn."""

    train: Rows  # the training rows of all clients, one client after the other
    sizes: np.ndarray  # how many training rows each client has
    names: tuple[str, ...]  # what the clients are called
    labels: np.ndarray | None = None  # what the classes 0, 1, ... are called; None: a regression
    test: Rows | None = None  # the test rows, in the same order; None: there are none
    test_sizes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    preparation: Any = None  # how raw tables became these rows, where they did

    def __post_init__(self) -> None:
        for i in np.flatnonzero(self.sizes == 0):
            raise DataError(
                f"client {self.names[i]!r} has no training rows; every client needs at least one. "
                f"Use fewer clients, or another partition."
            )

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def classes(self) -> int:
        """How many classes the labels have; 0 for a regression."""
        return 0 if self.labels is None else len(self.labels)

    @property
    def offsets(self) -> np.ndarray:
        """Where each client's training rows begin."""
        return _starts(self.sizes)

    @property
    def test_offsets(self) -> np.ndarray:
        """Where each client's test rows begin."""
        return _starts(self.test_sizes)

    def of(self, client: int) -> Rows:
        """The training rows of one client."""
        return _slice(self.train, self.offsets[client], self.sizes[client])

    def test_of(self, client: int) -> Rows | None:
        """The test rows of one client; None where there are no test rows at all."""
        if self.test is None:
            return None
        return _slice(self.test, self.test_offsets[client], self.test_sizes[client])


def from_arrays(
    parts: Sequence[tuple[Any, Any]],
    *,
    test: Sequence[tuple[Any, Any]] | None = None,
    names: Sequence[str] | None = None,
) -> Clients:
    """Clients from one (x, y) pair for each of them.

    Whole-number labels are classes; other labels make a regression.

    Args:
        parts: Features (rows, ...) and labels (rows,) of each client.
        test: Test rows in the same form, one pair for each client.
        names: What the clients are called; by default "client 0", "client 1", ...
    """
    if not parts:
        raise DataError(
            "from_arrays needs at least one (x, y) pair; got none. Pass a list of pairs."
        )
    if test is not None and len(test) != len(parts):
        raise DataError(
            f"test must have one (x, y) pair for each of the {len(parts)} clients; got "
            f"{len(test)}. Use arrays of length 0 where a client has no test rows."
        )
    names = tuple(names or (f"client {i}" for i in range(len(parts))))
    for name, (x, y) in zip(
        names * (1 if test is None else 2), [*parts, *(test or [])], strict=True
    ):
        if len(x) != len(y):
            raise DataError(
                f"client {name!r}: x and y must have the same number of rows; got {len(x)} and "
                f"{len(y)}. Check how they were made."
            )
    train = _stack(parts)
    held_out = None if test is None else _stack(test)
    labels = None
    if np.issubdtype(train.y.dtype, np.integer) or train.y.dtype == bool:
        seen = train.y if held_out is None else np.concatenate([train.y, held_out.y])
        labels = np.unique(seen)
        train = Rows(train.x, np.searchsorted(labels, train.y))
        held_out = held_out and Rows(held_out.x, np.searchsorted(labels, held_out.y))
    return Clients(
        train,
        np.array([len(y) for _, y in parts]),
        names,
        labels,
        held_out,
        np.array([len(y) for _, y in test]) if test is not None else np.zeros(0, np.int64),
    )


def _stack(parts: Sequence[tuple[Any, Any]]) -> Rows:
    return Rows(
        np.concatenate([np.asarray(x) for x, _ in parts]),
        np.concatenate([np.asarray(y) for _, y in parts]),
    )


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _slice(rows: Rows, start: int, size: int) -> Rows:
    return Rows(rows.x[start : start + size], rows.y[start : start + size])
