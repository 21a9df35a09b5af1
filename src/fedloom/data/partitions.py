"""From a dataset to clients: training rows by a scheme, test rows to match."""

import dataclasses
from typing import Any, overload

import numpy as np

from fedloom.data.clients import Clients
from fedloom.data.dataset import Dataset
from fedloom.data.label_schemes import ByLabel, Dirichlet, OneClass
from fedloom.data.normalising import normalisation
from fedloom.data.parties import Parties, divide_features
from fedloom.data.schemes import (
    IID,
    ByClient,
    ByColumn,
    ByFeatures,
    BySize,
    Holdings,
    Scheme,
    apportion,
    cut,
    groups,
)
from fedloom.draws import SEED
from fedloom.errors import DataError, ParameterError
from fedloom.hints import closest
from fedloom.on_disk import OnDisk
from fedloom.parameters import between, check, flag
from fedloom.pytrees import plain
from fedloom.rows import Rows

SCHEMES: dict[str, Any] = {  # the ways to divide data, by the keys that `partition` takes
    scheme.key: scheme
    for scheme in (IID, ByLabel, Dirichlet, ByColumn, BySize, ByClient, OneClass, ByFeatures)
}
_MOST_DENSE_BYTES = 4 * 1024**3


@overload
def partition(
    dataset: Dataset,
    scheme: Scheme,
    *,
    seed: int = 0,
    test_fraction: float | None = None,
    normalise: bool = False,
) -> Clients: ...
@overload
def partition(
    dataset: Dataset,
    scheme: ByFeatures,
    *,
    seed: int = 0,
    test_fraction: float | None = None,
) -> Parties: ...
@overload
def partition(
    dataset: Dataset,
    scheme: str,
    *,
    seed: int = 0,
    test_fraction: float | None = None,
    normalise: bool = False,
    **parameters: Any,
) -> Any: ...
def partition(
    dataset: Dataset,
    scheme: Scheme | ByFeatures | str,
    *,
    seed: int = 0,
    test_fraction: float | None = None,
    normalise: bool = False,
    **parameters: Any,
) -> Clients | Parties:
    """Divide the rows of a dataset over clients; or, with ByFeatures, its columns over parties.

    Every row goes to exactly one client. If the dataset has test rows, they are divided so that
    each client's have the same shares of classes (or of column values) as its training rows. If it
    has none, `test_fraction` holds out a part of each client's own rows.

    Args:
        dataset: The dataset to divide. Sparse features become dense float32 numbers if rows are
            divided, and stay sparse if columns are.
        scheme: A scheme, such as `fl.data.Dirichlet(clients=10, alpha=0.5)`, or its key in SCHEMES,
            such as "dirichlet".
        seed: The random seed.
        test_fraction: The share of each client's rows to hold out, if the dataset has no test rows.
        normalise: Whether each feature, or each channel of images, is brought to mean 0 and
            deviation 1 over the training rows of all clients; `clients.normalisation` keeps them.
        parameters: The parameters of the scheme, if it is given by its key.
    """
    if not isinstance(dataset, Dataset):
        raise ParameterError(
            f"partition: dataset must be a Dataset; got a {type(dataset).__name__}. Pass what "
            f'fl.data.load("digits") returns; what is divided already needs no partition.'
        )
    chosen = _choose(scheme, parameters)
    test_fraction, seed = plain(test_fraction), plain(seed)
    check("partition", "seed", seed, SEED)
    check("partition", "test_fraction", test_fraction, between(0, 1).or_none("no test rows"))
    check("partition", "normalise", normalise, flag)
    rng = np.random.default_rng(seed)
    if normalise and isinstance(dataset.x, OnDisk):
        raise DataError(
            f"{dataset.name}: normalise is for rows in memory, and these stay on the disk. Write "
            f"normalised rows, or pass np.asarray(x) to fl.data.from_arrays."
        )
    if isinstance(chosen, ByFeatures):
        if normalise:
            raise ParameterError(
                "partition: normalise is for rows that are divided; of columns, each party scales "
                "its own. Use standardise = true."
            )
        return divide_features(dataset, chosen, rng, test_fraction)
    wanted = getattr(chosen, "clients", 0)  # of the schemes that say it
    if wanted > len(dataset.y):
        raise DataError(
            f"{dataset.name}: every client must have a row; there are {wanted} clients and "
            f"{len(dataset.y)} rows. Use fewer clients."
        )
    # Training rows first, so that they fall the same with and without test rows.
    holdings = chosen.divide(dataset, rng)
    parts = list(holdings.values())
    test, test_parts = dataset.test, None
    if test is not None:
        test_parts = _follow(chosen, dataset, test, holdings, rng)
    elif test_fraction is not None:
        test = dataset
        parts, test_parts = _hold_out(parts, test_fraction, rng)
    clients = Clients(
        _gather(dataset, parts),
        _sizes(parts),
        tuple(holdings),
        dataset.labels,
        left_out=dataset.left_out,
    )
    if test is not None and test_parts is not None:
        tested = _gather(test, test_parts)
        clients = dataclasses.replace(clients, test=tested, test_sizes=_sizes(test_parts))
    return _normalised(clients) if normalise else clients


def _normalised(clients: Clients) -> Clients:
    found = normalisation(clients.train, clients.sizes)

    def scaled(rows: Rows) -> Rows:
        return Rows(found.of(np.asarray(rows.x)), rows.y)

    test = None if clients.test is None else scaled(clients.test)
    return dataclasses.replace(clients, train=scaled(clients.train), test=test, normalisation=found)


def _choose(scheme: Scheme | ByFeatures | str, parameters: dict[str, Any]) -> Scheme | ByFeatures:
    """The scheme that was asked for, by object or by key."""
    if isinstance(scheme, str):
        if scheme not in SCHEMES:
            raise ParameterError(
                f"partition: scheme must be a known key; got {scheme!r}. {closest(scheme, SCHEMES)}"
            )
        scheme = SCHEMES[scheme](**parameters)
    elif parameters:
        raise ParameterError(
            f"partition: parameters go with a scheme's key; got {', '.join(parameters)} beside "
            f"{scheme!r}. Set them in the scheme itself."
        )
    if not isinstance(scheme, Scheme | ByFeatures):
        raise ParameterError(
            f"partition: scheme must be a scheme or its key; got {scheme!r}. "
            f"Try {IID(clients=10)!r}."
        )
    return scheme


def _follow(
    scheme: Scheme,
    dataset: Dataset,
    test: Dataset,
    holdings: Holdings,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Divide test rows, stratum by stratum, in the clients' shares of the training rows."""
    owners = np.empty(len(dataset), np.int64)
    for client, rows in enumerate(holdings.values()):
        owners[rows] = client
    trained = groups(scheme.strata(dataset))
    parts: list[list[np.ndarray]] = [[] for _ in holdings]
    for value, rows in groups(scheme.strata(test)).items():
        if value not in trained:
            raise DataError(
                f"{test.name}: test rows follow training rows of the same class or column value; "
                f"none has {value!r}. Drop the {len(rows)} test rows with it, or drop the test set "
                f"and use test_fraction."
            )
        holders, counts = np.unique(owners[trained[value]], return_counts=True)
        slices = cut(rng.permutation(rows), apportion(len(rows), counts, rng.random()))
        for client, part in zip(holders, slices, strict=True):
            parts[client].append(part)
    return [np.concatenate([np.zeros(0, np.int64), *part]) for part in parts]


def _hold_out(
    parts: list[np.ndarray], fraction: float, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training and test rows of each client; at least one row stays for training."""
    train, test = [], []
    for rows in parts:
        kept = max(1, len(rows) - round(fraction * len(rows)))
        shuffled = rng.permutation(rows)
        train.append(shuffled[:kept])
        test.append(shuffled[kept:])
    return train, test


def _sizes(parts: list[np.ndarray]) -> np.ndarray:
    return np.array([len(part) for part in parts], np.int64)


def _gather(dataset: Dataset, parts: list[np.ndarray]) -> Rows:
    """The rows of all clients, one client after the other."""
    order = np.concatenate(parts)
    x = dataset.x
    if not hasattr(x, "toarray"):  # as sparse ones have; SciPy takes a tenth of a second to load
        return Rows(x[order], dataset.y[order])
    needed = 4 * len(order) * x.shape[1]
    if needed > _MOST_DENSE_BYTES:
        raise DataError(
            f"{dataset.name}: {len(order)} rows of {x.shape[1]} sparse features would take "
            f"{needed / 1024**3:.1f} GB as dense numbers; the limit is "
            f"{_MOST_DENSE_BYTES / 1024**3:g} GB. Take fewer rows or features."
        )
    return Rows(x[order].astype(np.float32).toarray(), dataset.y[order])
