"""UCI's Adult: does a person earn more than 50 000 dollars a year?

The preprocessing, in full:

- the fourteen columns of the file, in its order, are the features;
- a column of words is numbered 0, 1, ... in the sorted order of the words in the training rows,
  where `?`, which stands for unknown, is a word like the others;
- all fourteen are then standardised, (value - mean) / standard deviation, with the statistics of
  the training rows only;
- the class is 1 for >50K; the full stop that ends the labels of the test file is dropped;
- the columns `sex` and `race` are kept as words, to divide by.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.data.frames import read_frame
from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl

FEATURES = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
NUMBERS = frozenset(
    {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
)
LABELS = np.array(["<=50K", ">50K"])


def read_adult(train: Path, test: Path) -> Dataset:
    """Adult from `adult.data` and `adult.test`, plain or compressed."""
    frame, test_frame = _read(train), _read(test)
    words = {name: sorted(set(frame[name])) for name in FEATURES if name not in NUMBERS}
    x = _numbers(train, frame, words)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation[deviation == 0] = 1  # a constant column stays at zero

    def dataset(name: str, path: Path, frame: "pl.DataFrame", test: Dataset | None) -> Dataset:
        y, _ = labels.encode(
            frame["income"].str.strip_suffix(".").to_numpy().astype(str), source=path, known=LABELS
        )
        return Dataset(
            name,
            (_numbers(path, frame, words) - mean) / deviation,
            y,
            LABELS,
            {name: frame[name].to_numpy().astype(str) for name in ("sex", "race")},
            FEATURES,
            test,
        )

    return dataset("adult", train, frame, dataset("adult test", test, test_frame, None))


def _read(path: Path) -> "pl.DataFrame":
    import polars as pl

    # The fields are separated by a comma and a blank, and UCI's test file begins with a remark.
    frame = read_frame(path, names=(*FEATURES, "income"), comment="|")
    return frame.cast(pl.String).with_columns(pl.all().str.strip_chars())


def _numbers(path: Path, frame: "pl.DataFrame", words: dict[str, list[str]]) -> np.ndarray:
    """The features before they are standardised."""
    import polars as pl

    columns = []
    for name in FEATURES:
        if name in words:
            places = range(len(words[name]))
            rule = "a word of the training rows"
            numbers = frame[name].replace_strict(words[name], places, default=None)
        else:
            rule = "a number"
            numbers = frame[name].cast(pl.Float64, strict=False)
        illegal = numbers.is_null()
        if illegal.any():
            row = int(illegal.to_numpy().argmax())
            raise DataError(
                f"{path}: {name} must be {rule}; got {frame[name][row]!r} in row {row + 1}. "
                f"Get a fresh copy of the file."
            )
        columns.append(numbers.to_numpy().astype(np.float64))
    return np.stack(columns, axis=1)
