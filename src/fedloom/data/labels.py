"""Labels as classes 0, 1, ... in sorted order, or as the numbers of a regression."""

import numpy as np

from fedloom.errors import DataError


def encode(
    values: np.ndarray,
    *,
    source: object,
    known: np.ndarray | None = None,
    regression: bool | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels for a Dataset, and what its classes are called (None: a regression).

    Args:
        values: Labels as they stand in a file: numbers or words.
        source: Where they come from, for messages.
        known: The classes, where they are settled already, as for test rows.
        regression: Whether the labels are numbers to predict; by default they are when some number
            is not whole.
    """
    words = not (np.issubdtype(values.dtype, np.number) or values.dtype == bool)
    if regression is None:
        regression = known is None and not words and not _whole(values)
    if regression:
        if words:
            raise DataError(
                f"{source}: the labels of a regression must be numbers; got {str(values[0])!r}. "
                f"Leave out regression=True for classes."
            )
        return values.astype(np.float64), None
    if not words and _whole(values):
        values = values.astype(np.int64)
    labels = np.unique(values) if known is None else known
    unknown = ~np.isin(values, labels)
    if unknown.any():
        raise DataError(
            f"{source}: every label must be one of {', '.join(map(str, labels))}; got "
            f"{str(values[unknown][0])!r}. Correct it, or add the class to the training rows."
        )
    return np.searchsorted(labels, values), labels


def _whole(values: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # a number too large for a class becomes another
        return bool((values == values.astype(np.int64)).all())
