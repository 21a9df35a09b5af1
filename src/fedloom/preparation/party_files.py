"""One file a party: the same people with other columns, joined on an id, labels at one of them."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.data.alignment import align
from fedloom.data.parties import Parties, from_parties
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.parameters import param, parametrised
from fedloom.preparation.files import a_text, named_files
from fedloom.preparation.joining import Joining, labels_of
from fedloom.problems.vertical import LABEL_PARTY

if TYPE_CHECKING:
    import polars as pl


@parametrised
class PartyFiles(Joining):
    """A CSV or Parquet file for each party, joined on an id; one of them has the label."""

    _: dataclasses.KW_ONLY
    parties: str = param(a_text, "a folder, or a pattern such as parties/*.parquet")

    def load(self) -> Parties:
        """Read the files, find the people whom all parties have, and prepare the columns."""
        found = named_files(self.parties, "data.parties")
        if LABEL_PARTY in found:
            raise DataError(
                f"{found[LABEL_PARTY]}: no party with features may be called {LABEL_PARTY!r}, "
                f"under which a model has what belongs to the labels. Rename the file."
            )
        frames = {name: self._frame(path) for name, path in found.items()}
        self._check_names({column for frame in frames.values() for column in frame.columns})
        owners = [name for name, frame in frames.items() if self.label in frame.columns]
        if len(owners) != 1:
            raise DataError(
                f"data.label: {self.label!r} must be a column of exactly one file; it is in "
                f"{', '.join(owners) or 'none'} of {', '.join(frames)}. Name another column."
            )
        order = [*owners, *(name for name in frames if name not in owners)]
        alignment = align({name: frames[name][self.id].to_list() for name in order}, how=self.join)
        joined = {name: frames[name][alignment.rows[name]] for name in order}
        train, test = self.divide(alignment.size)
        y, labels = labels_of(joined[owners[0]][self.label], self.regression, found[owners[0]])
        sources = {name: str(path) for name, path in found.items()}
        prepared = {n: self.prepared(frame, train, sources[n]) for n, frame in joined.items()}
        blocks = {n: prepared[n].encode(sources[n], frame) for n, frame in joined.items()}
        held_out = ({name: block[test] for name, block in blocks.items()}, y[test])
        made = from_parties(
            {name: block[train] for name, block in blocks.items()},
            y[train],
            test=held_out if len(test) else None,
        )
        words = made.labels if labels is None or made.labels is None else labels[made.labels]
        said = [alignment.report()] + [
            f"left out {column!r} of {name}: {why}"
            for name, frame in joined.items()
            for column, why in self.left_out(frame).items()
        ]
        return dataclasses.replace(
            made, labels=words, alignment="; ".join(said), preparations=prepared
        )

    def _check_names(self, columns: set[str]) -> None:
        named = {"ignore": self.ignore, "features": self.features, "dates": self.dates or ()}
        for option, names in named.items():
            for name in names:
                if name not in columns:
                    raise DataError(
                        f"data.{option}: {name!r} is a column of no party. "
                        f"{closest(name, sorted(columns))}"
                    )

    def _frame(self, path: Path) -> "pl.DataFrame":
        frame = self.read(path)
        self.check_id(path, frame)
        return frame
