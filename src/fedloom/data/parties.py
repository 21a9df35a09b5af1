"""Who holds which columns: the same people at every party, their labels at one of them."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.checksums import of_arrays
from fedloom.data.arrays import as_numbers
from fedloom.data.clients import Clients
from fedloom.data.dataset import Dataset, described
from fedloom.data.fingerprints import Fingerprint, fingerprint
from fedloom.data.normalising import scales
from fedloom.data.schemes import ByFeatures
from fedloom.errors import DataError
from fedloom.on_disk import OnDisk
from fedloom.rows import all_finite


@dataclasses.dataclass(frozen=True)
class Parties:
    """The data of a vertical federation: row k of every block is the same person."""

    features: tuple[Any, ...]  # each party's (s, d_i) array, dense or scipy CSR
    y: np.ndarray  # (s,) with the label party only, which is the hub
    names: tuple[str, ...]
    labels: np.ndarray | None = None  # what the classes 0, 1, ... are called; None: a regression
    test_features: tuple[Any, ...] | None = None
    test_y: np.ndarray | None = None
    alignment: str | None = None  # how many people a join kept and what it dropped, in words
    # How each party's table became its features, by the party's name, where it did.
    preparations: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        """Who there is with how much, and none of it."""
        wide = ", ".join(f"{n}: {w}" for n, w in zip(self.names, self.widths, strict=True))
        return (
            f"Parties({len(self)} parties, "
            f"{described(self.rows, (sum(self.widths),), self.labels)}; features of {wide})"
        )

    @property
    def rows(self) -> int:
        """How many people there are."""
        return len(self.y)

    def identity(self) -> str:
        """A short digest of whose rows and how many columns there are, as that of clients."""
        return self._identity

    def fingerprint(self) -> Fingerprint | None:
        """A number of all features, as that of clients."""
        return self._fingerprint

    # Once, for every run asks for them and they look at all rows, which are not changed in place.
    @functools.cached_property
    def _identity(self) -> str:
        return of_arrays(
            self.names, self.widths, self.y, () if self.test_y is None else self.test_y
        )

    @functools.cached_property
    def _fingerprint(self) -> Fingerprint | None:
        return fingerprint([*self.features, *(self.test_features or ())])

    @property
    def widths(self) -> tuple[int, ...]:
        """How many features each party has."""
        return tuple(block.shape[1] for block in self.features)

    @property
    def classes(self) -> int:
        """How many classes the labels have; 0 for a regression."""
        return 0 if self.labels is None else len(self.labels)

    def holdings(self) -> dict[str, Any]:
        """Who holds what, as the columns of a table: parties differ in features, not in rows."""
        return {"client": self.names, "features": self.widths}

    def is_complete(self) -> bool:
        """Whether no number is missing in any row."""
        tested = () if self.test_features is None else (*self.test_features, self.test_y)
        return all(map(all_finite, (*self.features, self.y, *tested)))

    def in_order(self, order: Sequence[int]) -> "Parties":
        """The same parties, numbered otherwise."""
        tested = self.test_features
        return dataclasses.replace(
            self,
            features=tuple(self.features[i] for i in order),
            names=tuple(self.names[i] for i in order),
            test_features=None if tested is None else tuple(tested[i] for i in order),
        )


Holders = Clients | Parties  # who holds the data of a federation


def from_parties(
    features: Mapping[str, Any] | Sequence[Any],
    y: Any,
    *,
    test: tuple[Mapping[str, Any] | Sequence[Any], Any] | None = None,
    regression: bool | None = None,
) -> Parties:
    """Parties that hold different columns of the same rows, from one array of features for each.

    Args:
        features: Arrays of shape (s, d_i), dense or scipy sparse: a mapping from the names of the
            parties, or a sequence. Row k must be the same person everywhere (see `fl.data.align`).
        y: The labels, which the label party holds. Integers and texts are classes; floats are
            numbers to predict, even if all of them are whole.
        test: Features and labels of test rows, in the same form.
        regression: Whether integers are numbers to predict too.
    """
    names, blocks = _named(features)
    y = _labels(y, regression)
    if not blocks:
        raise DataError("from_parties needs at least one array of features; got none.")
    _check(names, blocks, y, None)
    held_out, test_y = None, None
    if test is not None:
        test_names, held_out = _named(test[0])
        test_y = _labels(test[1], regression)
        if test_names != names:
            raise DataError(
                f"from_parties: test features must be of the parties {', '.join(names)}; got "
                f"{', '.join(test_names)}. Pass them under the same names."
            )
        _check(names, held_out, test_y, blocks)
    labels = None
    if regression is False or not np.issubdtype(y.dtype, np.floating):
        labels = np.unique(y if test_y is None else np.concatenate([y, test_y]))
        y = np.searchsorted(labels, y)
        test_y = None if test_y is None else np.searchsorted(labels, test_y)
    return Parties(blocks, y, names, labels, held_out, test_y)


def divide_features(
    dataset: Dataset, scheme: ByFeatures, rng: np.random.Generator, test_fraction: float | None
) -> Parties:
    """The columns of a dataset over parties; test rows come with it or are held out at random."""
    if dataset.y.ndim > 1 or np.ndim(dataset.x) < 2:
        raise DataError(f"{dataset.name}: ByFeatures needs rows of features with one label each.")
    x, y, test = _flat(dataset.x), dataset.y, dataset.test
    tested = None if test is None else (_flat(test.x), test.y)
    if test is None and test_fraction is not None:
        order = rng.permutation(len(y))
        kept = max(1, len(y) - round(test_fraction * len(y)))
        x, y, tested = x[order[:kept]], y[order[:kept]], (x[order[kept:]], y[order[kept:]])
    cuts = scheme.blocks(x.shape[1])
    names = tuple(f"party {i}" for i in range(len(cuts)))
    if scheme.standardise:
        centre, scale = _scaling(x)
        x = _standardised(x, centre, scale)
        tested = tested and (_standardised(tested[0], centre, scale), tested[1])
    return Parties(
        tuple(x[:, cut] for cut in cuts),
        y,
        names,
        dataset.labels,
        None if tested is None else tuple(tested[0][:, cut] for cut in cuts),
        None if tested is None else tested[1],
    )


def _labels(y: Any, regression: bool | None) -> np.ndarray:
    y = np.asarray(y)
    if regression:
        return as_numbers("from_parties", y)
    return y if np.issubdtype(y.dtype, np.number) or y.dtype == bool else y.astype(str)


def _named(features: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    if not isinstance(features, Mapping):
        features = {f"party {i}": block for i, block in enumerate(features)}
    return tuple(features), tuple(_array(block) for block in features.values())


def _array(block: Any) -> Any:
    from scipy.sparse import csr_array, issparse

    return csr_array(block) if issparse(block) else np.asarray(block)


def _check(names: Sequence[str], blocks: Sequence[Any], y: np.ndarray, like: Any) -> None:
    for i, (name, block) in enumerate(zip(names, blocks, strict=True)):
        if block.ndim != 2 or block.shape[0] != len(y) or block.shape[1] == 0:
            raise DataError(
                f"party {name!r}: features must have the shape ({len(y)}, d) with d >= 1, a row "
                f"for each label; got {block.shape}. Align the rows with fl.data.align."
            )
        if like is not None and block.shape[1] != like[i].shape[1]:
            raise DataError(
                f"party {name!r}: test rows must have {like[i].shape[1]} features as the training "
                f"rows have; got {block.shape[1]}."
            )


def _flat(x: Any) -> Any:
    x = np.asarray(x) if isinstance(x, OnDisk) else x  # columns are wanted of all rows at once
    return x if x.ndim == 2 else x.reshape(len(x), -1)


def _scaling(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column; zeros stay zeros where features are sparse.

    In double precision, as sums of many single numbers lose the digits in which these differ.
    """
    from scipy.sparse import csc_array, issparse

    if not issparse(x):
        mean, deviation = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
        return mean, scales(mean, deviation)
    x = csc_array(x, dtype=np.float64, copy=True)
    x.sum_duplicates()
    mean = np.asarray(x.mean(0)).ravel()
    held = np.diff(x.indptr)
    x.data = (x.data - np.repeat(mean, held)) ** 2
    squares = np.asarray(x.sum(0)).ravel() + (x.shape[0] - held) * mean**2
    return np.zeros_like(mean), scales(mean, np.sqrt(squares / x.shape[0]))


def _standardised(x: Any, centre: np.ndarray, scale: np.ndarray) -> Any:
    from scipy.sparse import csr_array, issparse

    scaled = csr_array(x.multiply(1 / scale)) if issparse(x) else (x - centre) / scale
    return scaled.astype(np.result_type(x.dtype, np.float32), copy=False)
