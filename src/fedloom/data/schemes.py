"""How rows are divided over clients: one class a scheme, with its parameters as fields.

A scheme's `divide` says which rows each client holds; every row goes to one client. Its `strata`
says in what clients differ, the class or a column, so that test rows can be divided to match.
"""

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.errors import DataError, unwritten
from fedloom.hints import closest
from fedloom.parameters import Rule, at_least, at_least_zero, flag, one_of, param, parametrised

Holdings = dict[str, np.ndarray]  # the rows of each client, by its name
CLIENTS = (at_least(1), "how many clients there are")
_COLUMN = (
    Rule(lambda v: isinstance(v, str) and v != "", "the name of a column", "client"),
    "the column whose values tell clients apart",
)


class Scheme:
    """Base of the schemes that divide rows."""

    key: ClassVar[str]

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """The rows of each client."""
        raise unwritten(self, "divide")

    def strata(self, dataset: Dataset) -> np.ndarray:
        """For each row the group by which test rows are divided like training rows: its class."""
        if dataset.labels is None or dataset.y.ndim > 1:
            return np.zeros(len(dataset), np.int64)
        return dataset.y


@parametrised
class IID(Scheme):
    """Rows at random, the same number for every client."""

    key: ClassVar[str] = "iid"
    clients: int = param(*CLIENTS)

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Cut the shuffled rows into nearly equal parts."""
        return numbered(np.array_split(rng.permutation(len(dataset)), self.clients))


@parametrised
class BySize(Scheme):
    """Rows at random, with client sizes that follow a law; every client has at least one row."""

    key: ClassVar[str] = "size"
    clients: int = param(*CLIENTS)
    law: str = param(
        one_of("lognormal", "power"),
        "the law of the sizes: exp(spread * Normal(0, 1)), or rank ** -spread",
        default="lognormal",
    )
    spread: float = param(at_least_zero, "how unequal the sizes are; 0: all equal", default=1.0)

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Cut the shuffled rows into parts of unequal size."""
        spare = len(dataset) - self.clients
        if self.law == "lognormal":
            weights = np.exp(self.spread * rng.standard_normal(self.clients))
        else:
            weights = rng.permutation(np.arange(1.0, self.clients + 1) ** -self.spread)
        return numbered(cut(rng.permutation(len(dataset)), 1 + apportion(spare, weights)))


@parametrised
class ByColumn(Scheme):
    """One client, or a few, for each value of a column, such as the site or the sex."""

    key: ClassVar[str] = "column"
    column: str = param(*_COLUMN)
    clients_each: int = param(at_least(1), "how many clients share a value's rows", default=1)

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Cut the shuffled rows of each value into nearly equal slices."""
        holdings: Holdings = {}
        for value, rows in groups(self.strata(dataset)).items():
            parts = np.array_split(rng.permutation(rows), self.clients_each)
            alone = self.clients_each == 1
            holdings |= {str(value) if alone else f"{value}/{i}": p for i, p in enumerate(parts)}
        return holdings

    def strata(self, dataset: Dataset) -> np.ndarray:
        """The column's value."""
        return column_of(dataset, self.column)


@parametrised
class ByClient(Scheme):
    """The clients that the data comes with: writers, roles, hospitals."""

    key: ClassVar[str] = "client"
    column: str = param(*_COLUMN, default="client")
    owners_each: int = param(
        at_least(1), "how many owners, drawn at random, are combined into one client", default=1
    )

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Give every owner's rows to its client, in the order in which they stand."""
        owners = groups(self.strata(dataset))
        names = list(owners)
        if self.owners_each > 1:
            rng.shuffle(names)
        teams = [names[i : i + self.owners_each] for i in range(0, len(names), self.owners_each)]
        return {
            "+".join(map(str, team)): np.concatenate([owners[name] for name in team])
            for team in teams
        }

    def strata(self, dataset: Dataset) -> np.ndarray:
        """The owner."""
        return column_of(dataset, self.column)


@parametrised
class ByFeatures:
    """The columns, not the rows, divided: every party has some features of all the people."""

    key: ClassVar[str] = "features"
    parties: int = param(at_least(1), "how many parties there are")
    standardise: bool = param(
        flag, "whether each party scales its columns to mean 0 and deviation 1", default=False
    )

    def blocks(self, n_features: int) -> list[slice]:
        """The features of each party: contiguous blocks of nearly equal width."""
        if self.parties > n_features:
            raise DataError(
                f"ByFeatures: every party must have a feature; there are {self.parties} parties "
                f"and {n_features} features. Use fewer parties."
            )
        width, wider = divmod(n_features, self.parties)
        ends = [width * party + min(party, wider) for party in range(self.parties + 1)]
        return [slice(*pair) for pair in pairwise(ends)]


def apportion(total: int, weights: np.ndarray, offset: float = 0.5) -> np.ndarray:
    """Whole numbers in proportion to the weights that sum to `total`, each off by less than one.

    A random offset in [0, 1) makes every expected number exactly proportional.
    """
    cumulative = np.cumsum(weights)
    edges = np.floor(total * (cumulative / cumulative[-1]) + offset).astype(np.int64)
    return np.diff(np.minimum(edges, total), prepend=0)


def cut(rows: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """The rows in turn, in parts of these sizes."""
    return np.split(rows, np.cumsum(sizes)[:-1])


def groups(values: np.ndarray) -> dict[Any, np.ndarray]:
    """The rows of each value that occurs, in the order of the values."""
    found, places = np.unique(values, return_inverse=True)
    order = np.argsort(places, kind="stable")
    return dict(zip(found.tolist(), cut(order, np.bincount(places)), strict=True))


def numbered(parts: list[np.ndarray]) -> Holdings:
    """Clients called by their number."""
    return {f"client {number}": part for number, part in enumerate(parts)}


def column_of(dataset: Dataset, column: str) -> np.ndarray:
    """A column to divide by."""
    if column not in dataset.columns:
        hint = closest(column, dataset.columns) if dataset.columns else "It has no columns at all."
        raise DataError(
            f"{dataset.name}: the dataset must have a column {column!r} to divide by. {hint}"
        )
    return dataset.columns[column]
