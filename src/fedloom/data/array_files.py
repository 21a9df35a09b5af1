"""Folders of NumPy files that may be larger than memory: x.npy and y.npy, for all or for each site.

Features stay in their files, memory-mapped: a run reads the rows that it needs. Labels are loaded.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.errors import DataError, MissingDataError
from fedloom.on_disk import OnDisk

FEATURES, LABELS, OWNERS = "x.npy", "y.npy", "client.npy"
_IMAGE_AXES = 3  # rows, height, width


class _Arrays(NamedTuple):
    """What a folder holds."""

    x: OnDisk
    y: np.ndarray
    clients: np.ndarray | None


def read_array_folder(
    folder: Path, *, regression: bool | None = None, test: Path | None = None
) -> Dataset:
    """A Dataset from x.npy and y.npy in a folder, or in a folder for each site within it.

    Features of one byte with a height and a width are pixels, and become numbers from 0 to 1; all
    others are what they are. Where the folder has client.npy beside them, it names the owner of
    each row; of several sites, the folders' names do. The scheme "client" divides by these.

    Args:
        folder: With the training rows.
        regression: Whether the labels are numbers to predict; by default they are when some label
            is not a whole number.
        test: A folder with the test rows, laid out in the same way.
    """
    found = _arrays(folder)
    y, classes = labels.encode(found.y, source=folder, regression=regression)
    columns = {} if found.clients is None else {"client": found.clients}
    made = Dataset(folder.name, found.x, y, classes, columns)
    if test is None:
        return made
    held = _arrays(test)
    if held.x.shape[1:] != found.x.shape[1:]:
        raise DataError(
            f"{test}: test rows must have the shape {found.x.shape[1:]} as those of {folder}; got "
            f"{held.x.shape[1:]}. Make them alike."
        )
    _check_labels(test, held.y, folder, found.y)
    test_y, _ = labels.encode(held.y, source=test, known=classes, regression=classes is None)
    columns = {} if held.clients is None else {"client": held.clients}
    tested = Dataset(f"{folder.name} test", held.x, test_y, classes, columns)
    return dataclasses.replace(made, test=tested)


def _arrays(folder: Path) -> _Arrays:
    if (folder / FEATURES).exists():
        return _one(folder)
    sites = sorted(place.parent for place in folder.glob(f"[!.]*/{FEATURES}"))
    if not sites:
        raise MissingDataError(
            f"{folder}: a folder of NumPy files must hold {FEATURES} and {LABELS}, or folders of "
            f"sites that do; it does not. Name the files so."
        )
    parts = [_one(site) for site in sites]
    for site, part in zip(sites, parts, strict=True):
        first = parts[0]
        if part.x.shape[1:] != first.x.shape[1:] or part.x.pixels != first.x.pixels:
            raise DataError(
                f"{site}: rows must be {_described(first.x)} as those of {sites[0]}; got "
                f"{_described(part.x)}. Give all sites the same features."
            )
        _check_labels(site, part.y, sites[0], first.y)
    files = [part.x.parts[0] for part in parts]
    dtype = np.result_type(*(part.x.dtype for part in parts))
    names = np.repeat([site.name for site in sites], [len(part.y) for part in parts])
    x = OnDisk(files, dtype=dtype, pixels=parts[0].x.pixels)
    return _Arrays(x, np.concatenate([part.y for part in parts]), names)


def _one(folder: Path) -> _Arrays:
    """The arrays of one folder."""
    x, y = _opened(folder / FEATURES), np.array(_opened(folder / LABELS))
    clients = np.array(_opened(folder / OWNERS)) if (folder / OWNERS).exists() else None
    if clients is not None and clients.ndim != 1:
        raise DataError(
            f"{folder / OWNERS}: must name one owner for each row, of shape (rows,); got the shape "
            f"{clients.shape}. Write the file anew."
        )
    for name, array in ((LABELS, y), (OWNERS, clients)):
        if array is not None and len(array) != len(x):
            raise DataError(
                f"{folder / name}: there must be an entry for each of the {len(x)} rows of "
                f"{FEATURES}; got {len(array)}. Write the files anew."
            )
    if x.dtype.kind not in "biuf" or x.ndim < 2 or not x.flags.c_contiguous:
        raise DataError(
            f"{folder / FEATURES}: features must be numbers of shape (rows, ...), row by row; got "
            f"{x.dtype} of shape {x.shape}{'' if x.flags.c_contiguous else ', column by column'}. "
            f"Write np.ascontiguousarray(x)."
        )
    pixels = x.dtype == np.uint8 and x.ndim >= _IMAGE_AXES
    return _Arrays(OnDisk([x], dtype=np.float32 if pixels else None, pixels=pixels), y, clients)


def _opened(path: Path) -> np.ndarray:
    if not path.exists():
        raise MissingDataError(f"{path}: there is no such file. Put it beside {FEATURES}.")
    try:
        found = np.lib.format.open_memmap(path, mode="r")  # `np.load` would open an archive too
    except Exception as error:  # what NumPy makes of a damaged header is of many kinds
        raise DataError(
            f"{path}: must be one array as np.save writes it, and not np.savez ({error}). Write it "
            f"so, or get a fresh copy of it."
        ) from error
    if found.ndim == 0:
        raise DataError(
            f"{path}: must have an entry for each row; got an array of shape (), a single value. "
            f"Save an array with rows."
        )
    return found


def _check_labels(place: Path, y: np.ndarray, first_place: Path, first: np.ndarray) -> None:
    """Raise DataError where labels have another shape or kind than those before them."""
    kind, known = ("numbers" if a.dtype.kind in "biuf" else "words" for a in (y, first))
    if kind != known or y.shape[1:] != first.shape[1:]:
        raise DataError(
            f"{place / LABELS}: labels must be {known} of shape {first.shape[1:]} for each row as "
            f"those of {first_place}; got {kind} of shape {y.shape[1:]}. Write them alike."
        )


def _described(x: OnDisk) -> str:
    return f"{'pixels' if x.pixels else 'numbers'} of shape {x.shape[1:]}"
