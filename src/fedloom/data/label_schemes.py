"""Schemes by class: a few classes each, Dirichlet shares, or one class only."""

from typing import ClassVar

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.schemes import CLIENTS, Holdings, Scheme, apportion, cut, groups, numbered
from fedloom.errors import DataError
from fedloom.parameters import at_least, param, parametrised, positive

_MOST_DRAWS = 200


@parametrised
class ByLabel(Scheme):
    """Each client holds a few classes; a class is shared equally by those who hold it."""

    key: ClassVar[str] = "label"
    clients: int = param(*CLIENTS)
    classes_each: int = param(at_least(1), "how many classes each client holds")

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Deal each client the classes that have been dealt least often, at random among ties."""
        classes = _shuffled_classes(dataset, rng)
        if not len(classes) / self.clients <= self.classes_each <= len(classes):
            raise DataError(
                f"{dataset.name}: {self.clients} clients with {self.classes_each} different "
                f"classes each cannot hold its {len(classes)} classes. Change either number."
            )
        holds = np.zeros((self.clients, len(classes)), bool)
        for client in range(self.clients):
            least_dealt = np.lexsort((rng.random(len(classes)), holds.sum(axis=0)))
            holds[client, least_dealt[: self.classes_each]] = True
        return numbered(_share(classes, holds, rng))


@parametrised
class Dirichlet(Scheme):
    """Each class is split over the clients by shares drawn from a Dirichlet law.

    A small alpha gives each client few classes, a large one tends to IID. A draw that leaves a
    client without rows is drawn again.
    """

    key: ClassVar[str] = "dirichlet"
    clients: int = param(*CLIENTS)
    alpha: float = param(positive, "how similar the clients are: the larger, the more")

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Draw the shares of every class, and cut its rows by them."""
        classes = _shuffled_classes(dataset, rng)
        for _ in range(_MOST_DRAWS):
            shares = rng.dirichlet(np.full(self.clients, self.alpha), len(classes)).T
            parts = _share(classes, shares, rng)
            if all(len(part) for part in parts):
                return numbered(parts)
        raise DataError(
            f"{dataset.name}: every client must have a row, and each of {_MOST_DRAWS} draws with "
            f"alpha = {self.alpha:g} left some of the {self.clients} clients without. "
            f"Use a larger alpha, or fewer clients."
        )


@parametrised
class OneClass(Scheme):
    """Each client holds rows of one class only.

    A class has clients in proportion to its rows, rounded and at least one; they have equal slices.
    """

    key: ClassVar[str] = "one_class"
    clients: int = param(*CLIENTS)

    def divide(self, dataset: Dataset, rng: np.random.Generator) -> Holdings:
        """Cut the shuffled rows of each class into nearly equal slices."""
        classes = _shuffled_classes(dataset, rng)
        if self.clients < len(classes):
            raise DataError(
                f"{dataset.name}: there must be a client for each of the {len(classes)} classes; "
                f"got {self.clients} clients. Use more clients."
            )
        counts = apportion(self.clients, np.array([len(rows) for rows in classes]))
        while not counts.all():
            counts[counts.argmin()] += 1
            counts[counts.argmax()] -= 1
        slices = [np.array_split(rows, n) for rows, n in zip(classes, counts, strict=True)]
        return numbered([part for parts in slices for part in parts])


def _shuffled_classes(dataset: Dataset, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of each class that occurs."""
    if dataset.labels is None or dataset.y.ndim > 1:
        raise DataError(
            f"{dataset.name}: rows can be divided by class only where each has one class; here y "
            f"has {'numbers' if dataset.labels is None else 'a class for each place'}. "
            f"Use IID, BySize, ByColumn or ByClient."
        )
    return [rng.permutation(rows) for rows in groups(dataset.y).values()]


def _share(
    classes: list[np.ndarray], shares: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Each client's rows, by the (client, class) shares in which each class is split."""
    slices = [
        cut(rows, apportion(len(rows), shares[:, c], rng.random()))
        for c, rows in enumerate(classes)
    ]
    return [np.concatenate(parts) for parts in zip(*slices, strict=True)]
