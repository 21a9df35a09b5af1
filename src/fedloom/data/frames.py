"""Tables as Polars frames: from CSV, from Parquet, from pandas."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.csv_files import read_csv, unreadable
from fedloom.data.dialects import Dialect
from fedloom.data.headers import check_names
from fedloom.data.packed import bare_name, read_bytes
from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl


def read_frame(
    path: Path,
    *,
    names: Sequence[str] | None = None,
    comment: str | None = None,
    dialect: Dialect | None = None,
    codes: Sequence[str] = (),
) -> "pl.DataFrame":
    """A table from CSV (plain or compressed) or Parquet; blank lines are ignored.

    Args:
        path: The file. Fields of a CSV such as NA, NULL or an empty one are missing.
        names: The names of the columns of a CSV without a header.
        comment: How the lines of a CSV that are to be skipped begin.
        dialect: How a CSV is written, as far as that is known; files without a header have commas.
        codes: Columns of a CSV that are no quantities: where one has 007, all stays as written.
    """
    if bare_name(path).endswith(".parquet"):
        return from_parquet(path, read_bytes(path))
    dialect = dialect or Dialect(separator=None if names is None else ",")
    return read_csv(path, dialect, names, comment, codes)


def from_parquet(path: Path, raw: bytes) -> "pl.DataFrame":
    """A table from the bytes of a Parquet file.

    On some damaged bytes Polars panics, which is no ordinary exception.
    """
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(raw))
    except (Exception, pl.exceptions.PanicException) as error:
        raise unreadable(path, str(error)) from error
    _check_names(path, frame.columns)
    return frame


def as_frame(table: Any, owner: str) -> "pl.DataFrame":
    """A Polars frame from one of Polars or pandas, or from a mapping of columns.

    Args:
        table: The frame. Missing values of pandas (NaN, None, NaT, NA) are missing.
        owner: Who asks, for messages.
    """
    import polars as pl

    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, pl.DataFrame):
        _check_names(owner, table.columns)
        return table
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        _check_names(owner, [str(name) for name in table.columns])
        return pl.DataFrame(
            [_series(str(n), table.iloc[:, i]) for i, n in enumerate(table.columns)]
        )
    if isinstance(table, Mapping):
        _check_names(owner, [str(name) for name in table])
        return pl.DataFrame(dict(table), strict=False)
    raise DataError(
        f"{owner}: a table must be a frame of pandas or Polars, or a path; got "
        f"{type(table).__name__}. For arrays use fl.data.from_arrays."
    )


def _check_names(source: object, names: Sequence[str]) -> None:
    """Raise DataError where two columns are called alike."""
    if len({name.strip() for name in names}) < len(names):
        check_names(source, names)


def parquet_bytes(frame: "pl.DataFrame") -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _series(name: str, column: Any) -> "pl.Series":
    """A column of pandas; its numbers as they are, all else value by value."""
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "biu":
        return pl.Series(name, values)
    if values.dtype.kind == "f":
        return pl.Series(name, values, nan_to_null=True)
    if values.dtype.kind == "M":
        return pl.Series(name, values.astype("datetime64[us]"))
    gaps = np.asarray(column.isna())
    plain = [None if gap else v for v, gap in zip(values.tolist(), gaps.tolist(), strict=True)]
    texts = any(isinstance(value, str) for value in plain)
    return pl.Series(name, plain, dtype=pl.String if texts else None, strict=False)
