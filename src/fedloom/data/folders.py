"""Folders whose names are labels: FOLDER/CLASS/file, or FOLDER/CLIENT/CLASS/file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.errors import DataError


class Labelled(NamedTuple):
    """The files of a folder, in the order of their names."""

    paths: list[Path]
    classes: np.ndarray  # of words, one for each file
    clients: np.ndarray | None  # the same; None where folders are of classes only

    def dataset(self, name: str, x: np.ndarray, known: Dataset | None) -> Dataset:
        """The rows that were made of the files, with the classes of the training rows."""
        classes = None if known is None else known.labels
        source = self.paths[0].parents[1 if self.clients is None else 2]
        y, classes = labels.encode(self.classes, source=source, known=classes)
        columns = {} if self.clients is None else {"client": self.clients}
        return Dataset(name, x, y, classes, columns)


def labelled(folder: Path, suffixes: Sequence[str]) -> Labelled:
    """The files with one of these suffixes, and the names of the folders that they lie in.

    Args:
        folder: Its sub-folders are classes, or clients with sub-folders that are classes. Names
            that begin with a point are passed over.
        suffixes: Of the files that count, in small letters; other files are an error.
    """
    found = files_below(folder)
    strange = [path for path in found if path.suffix.lower() not in suffixes]
    if strange:
        raise DataError(
            f"{strange[0]}: a file in this folder must be one of {', '.join(suffixes)}; this one "
            f"is not, as {len(strange)} of {len(found)} are not. Move them elsewhere."
        )
    depths = {len(path.relative_to(folder).parts): path for path in found}
    if len(depths) > 1 or not depths.keys() <= {2, 3}:
        raise DataError(
            f"{folder}: files must all lie in CLASS/ or all in CLIENT/CLASS/; got "
            f"{' and '.join(str(path.relative_to(folder)) for path in depths.values())}. Move them."
        )
    parts = [path.relative_to(folder).parts for path in found]
    clients = np.array([part[0] for part in parts]) if 3 in depths else None
    return Labelled(found, np.array([part[-2] for part in parts]), clients)


def files_below(folder: Path) -> list[Path]:
    """All files of a folder and of the folders in it, in the order of their names."""
    found = []
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".")]
        found += [Path(place, name) for name in names if not name.startswith(".")]
    return sorted(found)
