"""How one party's columns became its features: what is saved with its share of a model.

It says nothing of other parties, and stays where the share stays. A missing number counts as the
mean, a missing word, or one that no training row had, as none of the words.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.dates import part_names, with_parts
from fedloom.data.dialects import Dialect
from fedloom.data.frames import as_frame, read_frame
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.preparation import tables
from fedloom.preparation.encoding import Column
from fedloom.preparation.saved import check_saved_of_party

if TYPE_CHECKING:
    import polars as pl

_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class PartyPreparation:
    """How the columns of a party's table become features, learned from its own training rows."""

    id: str  # the column that says whom a row is about
    columns: list[Column]
    dates: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # the parts that it took
    encoding: str | None = None  # of CSV files that are not UTF-8, new ones too
    standardise: bool = True  # False: numbers stay as they are, and the mean only fills gaps

    @property
    def in_units(self) -> list[Column]:
        """The columns with what was taken from their numbers, and by what these were divided."""
        if self.standardise:
            return self.columns
        return [dataclasses.replace(column, mean=0.0, deviation=1.0) for column in self.columns]

    def read(self, name: str, table: Any) -> "tuple[str, pl.DataFrame]":
        """What messages call a party's table, and the table, in which its ids must be.

        Args:
            name: Of the party.
            table: A CSV or Parquet file, or a frame of Polars or pandas.
        """
        if isinstance(table, str | Path):
            codes = [self.id, *(column.name for column in self.columns if column.words is not None)]
            dialect = Dialect(encoding=self.encoding)
            source, frame = str(table), read_frame(Path(table), dialect=dialect, codes=codes)
        else:
            source = f"the table of {name}"
            frame = as_frame(table, source)
        if self.id not in frame.columns:
            raise DataError(
                f"{source}: every party's table must have the id column {self.id!r}. "
                f"{closest(self.id, frame.columns)}"
            )
        return source, frame

    def encode(self, source: str, frame: "pl.DataFrame") -> np.ndarray:
        """The features of each row of this party's table, (rows, features)."""
        parts = self.with_parts(source, frame)
        return np.concatenate(
            [self._encoded(source, column, parts[column.name]) for column in self.columns], axis=1
        )

    def with_parts(self, source: str, frame: "pl.DataFrame") -> "pl.DataFrame":
        """The table with the parts of dates, and all columns that are learned from."""
        taken = part_names({name: own for name, own in self.dates.items() if name in frame.columns})
        # A column that happens to be called as one of them was none of the features.
        parts = with_parts(source, frame.drop(taken, strict=False), self.dates)
        tables.require(source, parts, [column.name for column in self.columns])
        return parts

    def _encoded(self, source: str, column: Column, series: "pl.Series") -> np.ndarray:
        if self.standardise or column.words is not None:
            return column.encode(source, series)
        values = tables.numbers(source, series)
        return np.where(np.isnan(values), column.mean, values)[:, None]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"format": _FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, values: Any) -> "PartyPreparation":
        """What `as_dict` returned; raises DataError where it is something else."""
        values = dict(values) if isinstance(values, dict) else {}
        if values.pop("format", None) != _FORMAT:
            raise DataError(
                f"the preparation of a party was written in another format than {_FORMAT}. "
                f"Read it with the fedloom version that wrote it."
            )
        check_saved_of_party(values)
        columns = [Column(**column) for column in values.pop("columns")]
        return cls(columns=columns, **values)
