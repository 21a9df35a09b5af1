"""Find missing values before a run, which would take them for divergence."""

from typing import Any

import numpy as np

from fedloom.data.parties import Holders, Parties
from fedloom.errors import DataError
from fedloom.rows import Rows, all_finite

_REMEDY = (
    "Fill them in, drop these rows, or hand the raw tables to fl.preparation.from_frames, which "
    "fills gaps by exchanges of sums."
)


def refuse(holders: Holders) -> None:
    """Raise DataError that names the first client and feature with a missing value.

    For holders whose data are not complete.
    """
    if isinstance(holders, Parties):
        held: list[tuple[str, tuple[Any, ...], Any]] = [("", holders.features, holders.y)]
        if holders.test_features is not None:
            held.append(("test ", holders.test_features, holders.test_y))
        for kind, features, y in held:
            for name, block in zip(holders.names, features, strict=True):
                _check_features(f"party {name!r}", block, kind)
            _check_labels("the label party", y, kind)
        return
    for client, name in enumerate(holders.names):
        for kind, rows in (("", holders.of(client)), ("test ", holders.test_of(client))):
            if rows is not None:
                _check_rows(f"client {name!r}", kind, rows)


def _check_rows(owner: str, kind: str, rows: Rows) -> None:
    _check_features(owner, rows.x, kind)
    _check_labels(owner, rows.y, kind)


def _check_features(owner: str, x: Any, kind: str = "") -> None:
    if all_finite(x):
        return
    flat = ~np.isfinite(_dense(x)).reshape(x.shape[0], -1)
    column, others = int(flat.any(0).argmax()), int(flat.any(0).sum()) - 1
    more = f", and {others} other features lack some too" if others else ""
    raise DataError(
        f"{owner}: feature {column} must have a finite number in every {kind}row; "
        f"{int(flat[:, column].sum())} of {len(flat)} have none{more}. {_REMEDY}"
    )


def _check_labels(owner: str, y: Any, kind: str = "") -> None:
    if not all_finite(y):
        gaps = int((~np.isfinite(np.asarray(y))).reshape(len(y), -1).any(1).sum())
        raise DataError(
            f"{owner}: every {kind}row must have a label that is a finite number; {gaps} of "
            f"{len(y)} have none. Fill them in, or drop these rows."
        )


def _dense(x: Any) -> np.ndarray:
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)
