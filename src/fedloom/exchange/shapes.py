"""A federation as those see it who do not hold its rows: the hub, and each site of the others."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from fedloom.data.clients import Clients
from fedloom.data.parties import Holders, Parties
from fedloom.operators.blocks import Dense
from fedloom.population import Federation, Group, Party, alone, know, vertical
from fedloom.problems.base import Problem
from fedloom.problems.vertical import Vertical
from fedloom.pytrees import abstract
from fedloom.rows import Rows, store
from fedloom.types import Array, Held


def bare_clients(
    names: Sequence[str],
    counts: Sequence[Sequence[int]],
    features: tuple[int, ...],
    labels: np.ndarray | None,
) -> Clients:
    """Clients of whom only counts are known: for each, how many rows it has of each class.

    Their features are zeros that take no memory; their labels stand in order. A regression has one
    count for each client.
    """
    table = np.asarray(counts, np.int64)
    sizes = table.sum(1)
    x = np.broadcast_to(np.float32(0), (int(sizes.sum()), *features))
    if labels is None:
        return Clients(Rows(x, np.zeros(len(x))), sizes, tuple(names))
    classes = np.tile(np.arange(len(labels)), len(table))
    return Clients(Rows(x, np.repeat(classes, table.ravel())), sizes, tuple(names), labels)


def bare_parties(
    names: Sequence[str], widths: Sequence[int], rows: int, tested: int, classes: int
) -> Parties:
    """Parties of whom only the numbers of people and features are known; all labels are 0."""

    def zeros(people: int) -> tuple[np.ndarray, ...]:
        return tuple(np.broadcast_to(np.float32(0), (people, width)) for width in widths)

    def labels(people: int) -> np.ndarray:
        return np.zeros(people, np.int64 if classes else np.float64)

    return Parties(
        zeros(rows),
        labels(rows),
        tuple(names),
        np.arange(classes) if classes else None,
        zeros(tested) if tested else None,
        labels(tested) if tested else None,
    )


def as_shapes(
    problem: Problem, bare: Holders, batch_size: int | None, precision: str
) -> Federation:
    """The federation with shapes in the place of rows, to work out what is said in a run."""
    fed = know(problem, bare, precision)
    if isinstance(bare, Parties):
        return Federation(fed, tuple(_outlined_parties(vertical(problem), bare, precision)))

    def shape(array: Held) -> Array:
        whole = np.issubdtype(array.dtype, np.integer)
        return abstract(array.shape, np.int32 if whole else precision)

    rows = Rows(shape(bare.train.x), shape(bare.train.y))
    nothing = Rows(np.zeros((len(bare.train.y), 0)), np.zeros((len(bare.train.y), 0)))
    groups = []
    for variant, members in fed.problem.groups(bare):
        chosen = np.arange(len(bare)) if members is None else np.asarray(members)
        laid_out = dataclasses.replace(store(nothing, bare.sizes[chosen]), rows=rows)
        ids = None if members is None else tuple(int(i) for i in members)
        groups.append(Group(variant, laid_out, None, fed.layout, batch_size, ids))
    return Federation(fed, tuple(groups))


def _outlined_parties(problem: Vertical, bare: Parties, precision: str) -> Iterator[Party]:
    for i, width in enumerate(bare.widths):
        block = Dense(abstract((width, bare.rows), precision))
        layout = problem.share_layout(width, bare.classes, precision)
        yield Party(problem, block, None, layout, bare.classes, (i,))


def one_with_rows(
    problem: Problem,
    bare: Clients,
    i: int,
    train: Rows,
    test: Rows | None,
    batch_size: int | None,
    precision: str,
) -> Group:
    """Client i with its own rows, and of the others nothing but counts."""
    fed = know(problem, bare, precision)
    variants = fed.problem.groups(bare)
    mine = next(variant for variant, members in variants if members is None or i in members)
    tested = np.zeros(0, np.int64) if test is None else np.array([len(test.y)])
    single = Clients(train, np.array([len(train.y)]), (bare.names[i],), bare.labels, test, tested)
    (group,) = alone(fed.problem, single, batch_size, precision)
    return dataclasses.replace(group, problem=mine, layout=fed.layout)
