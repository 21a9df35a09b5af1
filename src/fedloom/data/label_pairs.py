"""Labels that are pairs: a time with an event, a count with an exposure.

`label` names the first of the two; `event` or `exposure` names the column of the second.
"""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import DataError, ParameterError

if TYPE_CHECKING:
    import polars as pl


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
