"""Labels as classes 0, 1, ... in sorted order, as the numbers of a regression, or as pairs.

A pair is a time with an event, or a count with an exposure: `label` names the first of the two,
`event` or `exposure` the column of the second.
"""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.data import strays
from fedloom.errors import DataError, ParameterError

if TYPE_CHECKING:
    import polars as pl

IF_CLASSES = "If the labels are classes, set regression = false."


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
            import polars as pl

            raise no_regression(source, pl.Series(values.astype(str)))
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


def no_regression(source: object, texts: "pl.Series") -> DataError:
    """The error of a regression's labels that are texts; it shows the first that is no number."""
    strange = texts.filter(strays.no_numbers(texts))
    named = f"the label {texts.name!r}" if texts.name else "the label"
    return DataError(
        f"{source}: {named} of a regression must hold numbers; got "
        f"{(strange if len(strange) else texts)[0]!r}. Leave out regression = true for classes."
    )


def second_label(owner: str, event: str | None, exposure: str | None) -> str | None:
    """The column of the second of a pair; None where a label is a single value."""
    if event is not None and exposure is not None:
        raise ParameterError(
            f"{owner}: event goes with a time and exposure with a count; got both. Leave one out."
        )
    return event or exposure


def paired(source: object, first: np.ndarray, series: "pl.Series", *, is_event: bool) -> np.ndarray:
    """The labels with the second of each pair beside them, (rows, 2)."""
    import polars as pl

    values = series.cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    fits = np.isin(values, (0, 1)) if is_event else np.isfinite(values) & (values > 0)
    if not fits.all():
        rule = "1 for an event or 0 for none" if is_event else "a number > 0"
        raise DataError(
            f"{source}: column {series.name!r} must hold {rule} in every row; in "
            f"{int((~fits).sum())} of {len(fits)} rows it does not. Correct them."
        )
    return np.column_stack([first, values])


def _whole(values: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # a number too large for a class becomes another
        return bool((values == values.astype(np.int64)).all())
