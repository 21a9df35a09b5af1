"""Who holds what: the rows of every client, one client after the other."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedloom.checksums import of_arrays
from fedloom.data.arrays import as_numbers, as_pairs, check_alike, check_names
from fedloom.data.dataset import described, left_out_text
from fedloom.data.fingerprints import Fingerprint, fingerprint
from fedloom.data.normalising import Normalisation
from fedloom.errors import DataError
from fedloom.on_disk import OnDisk
from fedloom.rows import Rows, all_finite

_SHOWN = 8  # clients in a short description


@dataclasses.dataclass(frozen=True)
class Clients:
    """The data of all clients, in flat arrays: first the rows of client 0, then of client 1, ..."""

    train: Rows  # the training rows of all clients, one client after the other
    sizes: np.ndarray  # how many training rows each client has
    names: tuple[str, ...]  # what the clients are called
    labels: np.ndarray | None = None  # what the classes 0, 1, ... are called; None: a regression
    test: Rows | None = None  # the test rows, in the same order; None: there are none
    test_sizes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    preparation: Any = None  # how raw tables became these rows, where they did
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # columns, and why
    normalisation: Normalisation | None = None  # how rows were normalised, where they were

    def __post_init__(self) -> None:
        for i in np.flatnonzero(self.sizes == 0):
            raise DataError(
                f"client {self.names[i]!r} has no training rows; every client needs at least one. "
                f"Use fewer clients, or another partition."
            )

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        """How much there is at whom, and none of it."""
        shown = [f"{n}: {size}" for n, size in zip(self.names, self.sizes, strict=True)]
        more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
        rows, shape = int(self.sizes.sum()), self.train.x.shape[1:]
        told = [described(rows, shape, self.labels)]
        told += [] if self.test is None else [f"{int(self.test_sizes.sum())} test rows"]
        told += left_out_text(self.left_out)
        return (
            f"Clients({len(self)} clients, {', '.join(told)}; "
            f"rows of {', '.join([*shown[:_SHOWN], *more])})"
        )

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

    def holdings(self) -> dict[str, Any]:
        """Who holds what, as the columns of a table: names, training and test rows, and classes."""
        tested = self.test_sizes if self.test is not None else np.zeros(len(self), np.int64)
        columns: dict[str, Any] = {"client": self.names, "rows": self.sizes, "test rows": tested}
        counts = class_counts(self)
        if counts.shape[1] > 1:
            columns |= dict(zip(class_names(self), counts.T, strict=True))
        return columns

    def identity(self) -> str:
        """A short digest of who holds which rows, by labels, so that runs on others are told apart.

        Of features there is a fingerprint, for their last bits may differ on another host.
        """
        return self._identity

    def fingerprint(self) -> Fingerprint | None:
        """A number of all features, by which others are told apart."""
        return self._fingerprint

    # Once, for every run asks for them and they look at all rows, which are not changed in place.
    @functools.cached_property
    def _identity(self) -> str:
        held = [self.names, self.train.x.shape, self.sizes, self.train.y, self.test_sizes]
        return of_arrays(*held, () if self.test is None else self.test.y)

    @functools.cached_property
    def _fingerprint(self) -> Fingerprint | None:
        return fingerprint([self.train.x] if self.test is None else [self.train.x, self.test.x])

    def described(self) -> dict[str, Any]:
        """What is to be known of the rows where a model that learned from them is used."""
        return {
            "shape": list(self.train.x.shape[1:]),
            "labels": None if self.labels is None else list(map(str, self.labels)),
            "normalisation": self.normalisation and self.normalisation.as_dict(),
        }

    def is_complete(self) -> bool:
        """Whether no number is missing in any row."""
        held = [self.train] if self.test is None else [self.train, self.test]
        return all(all_finite(rows.x) and all_finite(rows.y) for rows in held)

    def of(self, client: int) -> Rows:
        """The training rows of one client."""
        return _slice(self.train, self.offsets[client], self.sizes[client])

    def test_of(self, client: int) -> Rows | None:
        """The test rows of one client; None where there are no test rows at all."""
        if self.test is None:
            return None
        return _slice(self.test, self.test_offsets[client], self.test_sizes[client])


def class_counts(clients: Clients) -> np.ndarray:
    """How many training rows of each class each client has, (clients, classes).

    Where rows have no class of their own there is one column, with all rows.
    """
    y = clients.train.y
    if clients.labels is None or y.ndim > 1:
        return clients.sizes[:, None]
    owners = np.repeat(np.arange(len(clients)), clients.sizes)
    places = owners * clients.classes + y
    counts = np.bincount(places, minlength=len(clients) * clients.classes)
    return counts.reshape(len(clients), clients.classes)


def class_names(clients: Clients) -> list[str]:
    """What the classes are called, as texts."""
    return [] if clients.labels is None else [str(label) for label in clients.labels]


def from_arrays(
    parts: Sequence[tuple[Any, Any]],
    *,
    test: Sequence[tuple[Any, Any]] | None = None,
    names: Sequence[str] | None = None,
    regression: bool | None = None,
) -> Clients:
    """Clients from arrays: one pair (x, y) of features and labels for each.

    Integers and texts are classes. Floats are numbers to predict, even if all of them are whole;
    for classes pass y.astype(int).

    Args:
        parts: For each client its features (rows, ...) and labels (rows,), or (rows, k) if each row
            has k labels. Memory-mapped features (`np.load(path, mmap_mode="r")`) stay on the disk.
        test: Test rows in the same form, one pair for each client.
        names: The names of the clients; by default "client 0", "client 1", ...
        regression: Whether labels are numbers to predict, such as counts; None: if the labels of
            some client are floats.
    """
    if len(parts) == 0:
        raise DataError(
            "from_arrays needs at least one (x, y) pair; got none. Pass a list of pairs."
        )
    if test is not None and len(test) != len(parts):
        raise DataError(
            f"test must have one (x, y) pair for each of the {len(parts)} clients; got "
            f"{len(test)}. Use arrays of length 0 where a client has no test rows."
        )
    names = tuple(f"client {i}" for i in range(len(parts))) if names is None else tuple(names)
    check_names(names, len(parts))
    train = as_pairs(names, parts)
    tested = None if test is None else as_pairs(names, test)
    check_alike(names, [*train, *(tested or [])])
    rows, held_out = _stacked(train), None if tested is None else _stacked(tested)
    labels = None
    if regression or (regression is None and np.issubdtype(rows.y.dtype, np.floating)):
        rows = Rows(rows.x, as_numbers("from_arrays", np.asarray(rows.y)))
        held_out = held_out and Rows(held_out.x, as_numbers("from_arrays", np.asarray(held_out.y)))
    else:
        seen = rows.y if held_out is None else np.concatenate([rows.y, held_out.y])
        labels = np.unique(seen)
        rows = Rows(rows.x, np.searchsorted(labels, rows.y))
        held_out = held_out and Rows(held_out.x, np.searchsorted(labels, held_out.y))
    return Clients(
        rows,
        np.array([len(y) for _, y in train]),
        names,
        labels,
        held_out,
        np.array([len(y) for _, y in tested]) if tested is not None else np.zeros(0, np.int64),
    )


def _stacked(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Rows:
    xs, ys = zip(*parts, strict=True)
    if any(isinstance(x, np.memmap) for x in xs):
        x: Any = OnDisk(xs, dtype=np.result_type(*{x.dtype for x in xs}))
        return Rows(x, np.concatenate(ys))
    return Rows(np.concatenate(xs), np.concatenate(ys))


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _slice(rows: Rows, start: int, size: int) -> Rows:
    return Rows(rows.x[start : start + size], rows.y[start : start + size])
