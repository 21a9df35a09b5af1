"""Rows for choosing among settings, taken from the training rows so that test rows stay unseen."""

import dataclasses

import numpy as np

from fedloom.data.clients import Clients
from fedloom.errors import DataError
from fedloom.rows import Rows


def hold_out(clients: Clients, fraction: float, seed: int = 0) -> Clients:
    """The same clients, each with a share of its training rows held out in place of test rows.

    A client keeps at least one training row; one that has a single row holds out none.
    """
    if not 0 < fraction < 1:
        raise DataError(
            f"hold_out: fraction must be a number between 0 and 1; got {fraction}. "
            f"Try fraction = 0.2."
        )
    rng = np.random.default_rng(seed)
    kept, held = [], []
    for start, size in zip(clients.offsets, clients.sizes, strict=True):
        order = start + rng.permutation(size)
        count = min(max(1, round(fraction * size)), size - 1)
        held.append(np.sort(order[:count]))
        kept.append(np.sort(order[count:]))
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
