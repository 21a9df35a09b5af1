"""LEAF's JSON: the rows of each user, in shards, in the folders `train` and `test`.

{"users": [name, ...], "num_samples": [rows, ...], "user_data": {name: {"x": ..., "y": ...}}}
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.data.packed import bare_name, read_bytes
from fedloom.errors import DataError, MissingDataError
from fedloom.parameters import Rule, at_least, check

_shape = Rule(
    lambda v: isinstance(v, list | tuple) and all(map(at_least(1).holds, v)),
    "a list of whole numbers >= 1",
    [28, 28],
)


class _Rows(NamedTuple):
    x: np.ndarray
    y: np.ndarray


_Users = dict[str, _Rows]


def read_leaf(
    folder: Path, *, shape: tuple[int, ...] | None = None, classes: np.ndarray | None = None
) -> Dataset:
    """A Dataset with the column `client` from a folder of LEAF JSON whose rows are numbers.

    The folder holds shards (`*.json`, plain or compressed), or `train` and `test` folders of them,
    or folders of several runs of LEAF. A user of more than one run keeps the rows of the first, in
    the order of the folders' names.

    Args:
        folder: The folder.
        shape: The shape of one row of x; by default as it is written.
        classes: The labels that may occur; by default those that do.
    """
    check(str(folder), "shape", shape, _shape.or_none("as rows are written"))
    train: _Users = {}
    test: _Users = {}
    for run in _runs(folder):
        seen = set(train)
        for users, found in ((train, _read_run(run, "train")), (test, _read_run(run, "test"))):
            users |= {user: rows for user, rows in found.items() if user not in seen}
    if not train:
        raise MissingDataError(
            f"{folder}: there are no LEAF shards (*.json) in it, nor in a folder train below it. "
            f"Check the path."
        )
    if classes is None:
        classes = np.unique(np.concatenate([rows.y for rows in (*train.values(), *test.values())]))
    held_out = _dataset(f"{folder.name} test", folder, test, shape, classes) if test else None
    return _dataset(folder.name, folder, train, shape, classes, held_out)


def _runs(folder: Path) -> list[Path]:
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    if any(path.name == "train" for path in below) or _shards(folder):
        return [folder]
    return below


def _shards(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if bare_name(path).endswith(".json"))


def _read_run(run: Path, part: str) -> _Users:
    """The users of a run's train or test shards; loose shards are for training."""
    shards = _shards(run / part) or (_shards(run) if part == "train" else [])
    users: _Users = {}
    for shard in shards:
        for user, rows in _read_shard(shard).items():
            if user in users:
                raise DataError(
                    f"{shard}: a user must be in one shard only; {user!r} is in an earlier one. "
                    f"Remove the shard that is there twice."
                )
            users[user] = rows
    return users


def _read_shard(path: Path) -> _Users:
    raw = read_bytes(path)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}). Get a fresh copy of the shard.") from error
    try:
        counts = dict(zip(content["users"], content["num_samples"], strict=True))
        users = {
            user: _rows(path, user, content["user_data"][user], counts[user]) for user in counts
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path}: a shard must have users, num_samples and user_data with x and y for each "
            f"user; could not use {error}. Check that it was written by LEAF."
        ) from error
    if len({rows.y.dtype.kind == "U" for rows in users.values()}) > 1:
        raise DataError(
            f"{path}: labels must all be numbers, or all be words; some users have numbers and "
            f"some have words. Get a fresh copy of the shard."
        )
    return users


def _rows(path: Path, user: str, data: dict[str, Any], count: int) -> _Rows:
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused below
            rows = _Rows(np.asarray(data["x"], np.float32), np.asarray(data["y"]))
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: x of user {user!r} must be rows of numbers, all of one length ({error}). "
            f"Text must be turned into numbers first."
        ) from error
    for what, found in (("x", rows.x), ("y", rows.y)):
        if len(found) != count:
            raise DataError(
                f"{path}: {what} of user {user!r} must have num_samples = {count} rows; got "
                f"{len(found)}. Get a fresh copy of the shard."
            )
    if not np.isfinite(rows.x).all():
        raise DataError(
            f"{path}: x of user {user!r} must hold finite numbers of single precision; some are "
            f"not. Correct them."
        )
    if rows.y.dtype.kind not in "biufU":
        raise DataError(
            f"{path}: y of user {user!r} must hold numbers or words; got others. Correct them."
        )
    return rows


def _dataset(
    name: str,
    folder: Path,
    users: _Users,
    shape: tuple[int, ...] | None,
    classes: np.ndarray,
    test: Dataset | None = None,
) -> Dataset:
    x = np.concatenate([rows.x for rows in users.values()])
    y, _ = labels.encode(
        np.concatenate([rows.y for rows in users.values()]), source=folder, known=classes
    )
    clients = np.repeat(list(users), [len(rows.y) for rows in users.values()])
    if shape is not None:
        if math.prod(shape) != x[0].size:
            raise DataError(
                f"{folder}: shape must have as many numbers as a row, {x[0].size}; got "
                f"{list(shape)}. Change or remove it."
            )
        x = x.reshape(-1, *shape)
    return Dataset(name, x, y, classes, {"client": clients}, test=test)
