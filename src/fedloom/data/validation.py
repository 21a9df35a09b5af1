"""Rows for choosing among settings, taken from the training rows so that test rows stay unseen."""

import dataclasses

import numpy as np

from fedloom.data.parties import Holders, Parties
from fedloom.errors import DataError
from fedloom.rows import Rows


def hold_out(clients: Holders, fraction: float, seed: int = 0) -> Holders:
    """The same clients, with a share of each one's training rows as test rows instead.

    Use it to choose among settings without looking at the test rows. A client keeps at least one
    training row, so a client with a single row holds out none. Parties of a vertical federation
    hold out the same people.

    Args:
        clients: The clients and their data.
        fraction: The share of the training rows, between 0 and 1.
        seed: The seed of the choice of rows.
    """
    if not 0 < fraction < 1:
        raise DataError(
            f"hold_out: fraction must be a number between 0 and 1; got {fraction}. "
            f"Try fraction = 0.2."
        )
    rng = np.random.default_rng(seed)

    def divide(size: int) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(size)
        count = min(max(1, round(fraction * size)), size - 1)
        return np.sort(order[count:]), np.sort(order[:count])

    if isinstance(clients, Parties):
        return _parties(clients, *divide(clients.rows))
    if clients.sizes.max() == 1:
        raise DataError(
            "hold_out: a client must have two rows or more, to learn from one and hold out the "
            "other; each has a single one. Use fewer clients."
        )
    kept, held = [], []
    for start, size in zip(clients.offsets, clients.sizes, strict=True):
        stay, leave = divide(size)
        kept.append(start + stay)
        held.append(start + leave)
    return dataclasses.replace(
        clients,
        train=_take(clients.train, kept),
        sizes=np.array([len(rows) for rows in kept]),
        test=_take(clients.train, held),
        test_sizes=np.array([len(rows) for rows in held]),
    )


def _take(rows: Rows, places: list[np.ndarray]) -> Rows:
    chosen = np.concatenate(places)
    return Rows(rows.x[chosen], rows.y[chosen])


def _parties(parties: Parties, kept: np.ndarray, held: np.ndarray) -> Parties:
    return dataclasses.replace(
        parties,
        features=tuple(block[kept] for block in parties.features),
        y=parties.y[kept],
        test_features=tuple(block[held] for block in parties.features),
        test_y=parties.y[held],
    )
