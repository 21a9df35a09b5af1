"""The sets that come with scikit-learn: small, real, and always at hand."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data.dataset import Dataset

BUNDLED = {
    "digits": "1797 handwritten digits of 8 by 8 pixels, 64 features from 0 to 1",
    "breast_cancer": "569 tumours, malignant or benign, 30 measurements",
    "wine": "178 wines of three growers, 13 measurements",
    "iris": "150 flowers of three species, 4 measurements",
    "diabetes": "442 patients, 10 measurements; the progress of the disease is to be predicted",
}


def read_bundled(name: str) -> Dataset:
    """One of the sets named in `BUNDLED`, with its features as scikit-learn has them.

    Only the pixels of `digits` are scaled, from 0..16 to 0..1.
    """
    if name == "digits" and (file := _file("digits.csv.gz")) is not None:
        return _digits(file)
    from sklearn import datasets

    reader: Callable[[], Any] = getattr(datasets, f"load_{name}")
    bunch = reader()
    x = np.asarray(bunch.data, np.float64)
    features = tuple(map(str, bunch.feature_names))
    if name == "diabetes":
        return Dataset(name, x, np.asarray(bunch.target, np.float64), features=features)
    x = x / 16 if name == "digits" else x
    return Dataset(name, x, bunch.target, np.asarray(bunch.target_names), features=features)


def _file(name: str) -> Path | None:
    """Where scikit-learn has a file, found without importing it, which takes over a second."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).parent / "datasets" / "data" / name
    return file if file.is_file() else None


def _digits(file: Path) -> Dataset:
    """What `load_digits` reads: 64 pixels from 0 to 16 in a line, and the digit."""
    table = np.loadtxt(file, delimiter=",")
    features = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
    return Dataset(
        "digits", table[:, :-1] / 16, table[:, -1].astype(int), np.arange(10), features=features
    )
