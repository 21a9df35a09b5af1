"""Datasets of other libraries: Hugging Face and PyTorch.

Neither library is imported: objects are recognised by their methods. A dataset must be on this
machine, nothing is downloaded; if it has no columns it is read row by row.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.data.clients import Clients, from_arrays
from fedloom.errors import DataError
from fedloom.hints import closest


def from_datasets(
    parts: Mapping[str, Any] | Sequence[Any],
    *,
    x: str | Sequence[str] | None = None,
    y: str | None = None,
    test: Mapping[str, Any] | Sequence[Any] | None = None,
    regression: bool | None = None,
) -> Clients:
    """Clients from datasets of Hugging Face's `datasets` or of PyTorch, one for each client.

    Args:
        parts: The datasets: a mapping from the names of the clients, or a sequence. A row of a
            PyTorch dataset must be a pair of features and label.
        x: In a Hugging Face dataset, the column with the features, or a list of columns of numbers.
        y: In a Hugging Face dataset, the column with the labels.
        test: Test rows in the same form.
        regression: Whether labels are numbers to predict; None: if some label is not whole.
    """
    named = _named(parts)
    held_out = None if test is None else _named(test)
    if held_out is not None and held_out.keys() != named.keys():
        raise DataError(
            f"from_datasets: test must be of the clients {', '.join(named)}; got "
            f"{', '.join(held_out)}. Pass the datasets under the same names."
        )
    wanted = (x, y)
    classes = {tuple(found) for d in named.values() if (found := _class_names(d, y)) is not None}
    words = next(iter(classes)) if len(classes) == 1 and regression is not True else None

    def pairs(datasets: Mapping[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        return [_pair(name, dataset, *wanted, words) for name, dataset in datasets.items()]

    tested = None if held_out is None else pairs(held_out)
    return from_arrays(pairs(named), test=tested, names=tuple(named), regression=regression)


def _named(parts: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(parts, Mapping):
        return dict(parts)
    return {f"client {i}": part for i, part in enumerate(parts)}


def _pair(
    name: str,
    dataset: Any,
    x: str | Sequence[str] | None,
    y: str | None,
    words: Sequence[str] | None,
) -> tuple[np.ndarray, np.ndarray]:
    columns = getattr(dataset, "column_names", None)
    if columns is not None:
        features, labels = _columns(name, dataset, list(columns), x, y)
    elif hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        features, labels = _rows(name, dataset)
    else:
        raise DataError(
            f"client {name!r}: a dataset must have columns (Hugging Face) or a length and rows by "
            f"number (PyTorch); got {type(dataset).__name__}. Take a finite part of a stream."
        )
    return features, labels if words is None else np.asarray(words)[labels]


def _columns(
    name: str, dataset: Any, known: list[str], x: str | Sequence[str] | None, y: str | None
) -> tuple[np.ndarray, np.ndarray]:
    if x is None or y is None:
        raise DataError(
            f"client {name!r}: a dataset with columns needs x and y, which say what to learn from "
            f"and what to predict; it has {', '.join(known)}. Pass x=..., y=..."
        )
    wanted = [x] if isinstance(x, str) else list(x)
    for column in (*wanted, y):
        if column not in known:
            raise DataError(
                f"client {name!r}: there is no column {column!r}. {closest(column, known)}"
            )
    blocks = [np.asarray([np.asarray(value) for value in dataset[column]]) for column in wanted]
    features = blocks[0] if isinstance(x, str) else np.stack(blocks, axis=1)
    return features, np.asarray(list(dataset[y]))


def _rows(name: str, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = [dataset[i] for i in range(len(dataset))]
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise DataError(
                f"client {name!r}: a row of a dataset must be a pair of features and label; got "
                f"{type(row).__name__}. Wrap the dataset so that it returns pairs."
            )
    shapes = {np.shape(row[0]) for row in rows}
    if len(shapes) > 1:
        raise DataError(
            f"client {name!r}: all rows must have one shape; got {len(shapes)} of them. Pad or "
            f"resize them in the dataset's transform."
        )
    return np.asarray([np.asarray(x) for x, _ in rows]), np.asarray([_item(y) for _, y in rows])


def _item(label: Any) -> Any:
    return label.item() if hasattr(label, "item") and np.ndim(label) == 0 else np.asarray(label)


def _class_names(dataset: Any, y: str | None) -> list[str] | None:
    """What classes are called, where a dataset knows it: ClassLabel, or torchvision's `classes`."""
    features = getattr(dataset, "features", None)
    label = features.get(y) if isinstance(features, Mapping) else None
    names = getattr(label, "names", None) or getattr(dataset, "classes", None)
    return None if names is None else [str(name) for name in names]
