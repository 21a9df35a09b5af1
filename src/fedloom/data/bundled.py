"""The sets that come with scikit-learn: small, real, and always at hand."""

from collections.abc import Callable
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
    from sklearn import datasets

    reader: Callable[[], Any] = getattr(datasets, f"load_{name}")
    bunch = reader()
    x = np.asarray(bunch.data, np.float64)
    features = tuple(map(str, bunch.feature_names))
    if name == "diabetes":
        return Dataset(name, x, np.asarray(bunch.target, np.float64), features=features)
    x = x / 16 if name == "digits" else x
    return Dataset(name, x, bunch.target, np.asarray(bunch.target_names), features=features)
