"""Checks of the arrays that a user hands over."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedloom.errors import DataError

Pair = tuple[np.ndarray, np.ndarray]
_KINDS = {"b": "whole numbers", "i": "whole numbers", "u": "whole numbers", "f": "numbers"}


def check_names(names: Sequence[Any], clients: int) -> None:
    """Raise DataError where clients do not have a name each, or where some share one."""
    if len(names) != clients:
        raise DataError(
            f"from_arrays: names must be one for each of the {clients} clients; got {len(names)}. "
            f"Name all of them, or leave names out."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"from_arrays: names must be different ones; got {', '.join(map(repr, twice))} more "
            f"than once. Give every client a name of its own."
        )


def as_pairs(names: Sequence[str], parts: Sequence[Any]) -> list[Pair]:
    """The features and labels of each client as arrays; labels are numbers or texts."""
    pairs = []
    for name, part in zip(names, parts, strict=True):
        if not isinstance(part, tuple | list) or len(part) != 2:
            raise DataError(
                f"client {name!r}: a client must be a pair (x, y) of features and labels; got "
                f"{type(part).__name__}. Pass [(x_0, y_0), (x_1, y_1), ...]."
            )
        x, y = _features(name, part[0]), _labels(name, part[1])
        if len(x) != len(y):
            raise DataError(
                f"client {name!r}: x and y must have the same number of rows; got {len(x)} and "
                f"{len(y)}. Check how they were made."
            )
        pairs.append((x, y))
    return pairs


def as_numbers(owner: str, y: np.ndarray) -> np.ndarray:
    """Labels of a regression, whole ones too; texts are an error."""
    if y.dtype.kind not in "biuf":
        raise DataError(
            f"{owner}: the label of a regression must hold numbers; got texts. Leave out "
            f"regression=True for classes."
        )
    return y if y.dtype.kind == "f" else y.astype(np.float64)


def check_alike(names: Sequence[str], parts: Sequence[Pair]) -> None:
    """Raise DataError where the rows of clients have another shape or kind than those of others."""
    owners = [names[i % len(names)] for i in range(len(parts))]
    (first_x, first_y), *_ = parts
    for name, (x, y) in zip(owners, parts, strict=True):
        if x.shape[1:] != first_x.shape[1:]:
            raise DataError(
                f"client {name!r}: rows must have the shape {first_x.shape[1:]} as those of "
                f"{owners[0]!r}; got {x.shape[1:]}. Give all clients the same features."
            )
        if y.shape[1:] != first_y.shape[1:] or _kind(y) != _kind(first_y):
            raise DataError(
                f"client {name!r}: labels must be {_kind(first_y)} of shape {first_y.shape[1:]} as "
                f"those of {owners[0]!r}; got {_kind(y)} of shape {y.shape[1:]}. Write the labels "
                f"alike everywhere."
            )


def _kind(y: np.ndarray) -> str:
    """Whole numbers and others are both numbers: some client's may all happen to be whole."""
    return "numbers" if y.dtype.kind in _KINDS else "texts"


def _features(name: str, given: Any) -> np.ndarray:
    if hasattr(given, "toarray"):  # of SciPy, without loading it
        raise DataError(
            f"client {name!r}: x must be an array; got a sparse {type(given).__name__}. "
            f"Pass x.toarray()."
        )
    x = given if isinstance(given, np.memmap) else _array(name, "x", given)
    if x.dtype.kind not in _KINDS:
        try:
            return x.astype(np.float64)  # numbers among Python objects
        except (TypeError, ValueError):
            raise DataError(
                f"client {name!r}: x must hold numbers; got {x.dtype}. For tables with words use "
                f"fl.preparation.from_frames, which encodes them."
            ) from None
    return x


def _labels(name: str, given: Any) -> np.ndarray:
    y = _array(name, "y", given)
    if y.ndim == 0:
        raise DataError(f"client {name!r}: y must have a label for each row; got one value.")
    if y.dtype.kind in _KINDS:
        return y
    missing = [value is None or value != value for value in y.ravel().tolist()]
    if any(missing):
        raise DataError(
            f"client {name!r}: every row must have a label; {sum(missing)} have none. Fill them "
            f"in, or drop these rows."
        )
    return y.astype(str)


def _array(name: str, what: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given)
    except ValueError as error:  # rows of unequal length
        raise DataError(
            f"client {name!r}: {what} must be an array ({error}). Give all rows the same length."
        ) from None
