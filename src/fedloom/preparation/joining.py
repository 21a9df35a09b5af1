"""How parties with different columns of the same people join them: id, label, and preparation.

Every party prepares its own columns by itself, since it has all people's values of them: numbers
get mean 0 and deviation 1 over the training rows, words become one column each. A missing number
counts as the mean, a missing or new word as none. Keys and dates are left out unless they are
named.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data import strays
from fedloom.data.columns import RARE_REASON, counted, tells_of_persons, why_left_out
from fedloom.data.dates import Dates, with_parts
from fedloom.data.dialects import Dialect, decimal_param, encoding_param, separator_param
from fedloom.data.frames import read_frame
from fedloom.data.labels import IF_CLASSES
from fedloom.data.normalising import scales
from fedloom.draws import SEED
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.parameters import between, flag, one_of, param, parametrised
from fedloom.preparation import tables
from fedloom.preparation.encoding import Column
from fedloom.preparation.files import a_text, check_listed, dates_param, names_param
from fedloom.preparation.of_party import PartyPreparation
from fedloom.preparation.tables import NUMBER, Reading

if TYPE_CHECKING:
    import polars as pl

_IF_WORDS = "If its values are words, name it in features, or in ignore."


@parametrised
class Joining:
    """How the tables of parties become features of the same people."""

    id: str = param(a_text, "the column that says whom a row is about, in every file")
    label: str = param(a_text, "the column to predict, in one file")
    join: str = param(
        one_of("private", "plain"),
        "by private set intersection, or in plain if ids may be pooled",
        default="private",
    )
    test_fraction: float | None = param(
        between(0, 1).or_none("no rows"), "share of the people to hold out", default=None
    )
    features: tuple[str, ...] = names_param(
        "columns to learn from; by default all but id, label and what looks like keys or dates"
    )
    dates: Dates | None = dates_param()
    ignore: tuple[str, ...] = names_param("columns to leave out")
    seed: int = param(SEED, "seed of the choice of held-out people", default=0)
    standardise: bool = param(flag, "whether numbers get mean 0 and deviation 1", default=True)
    regression: bool | None = param(
        flag.or_none("where the label's column holds fractions"),
        "whether the label is a number to predict",
        default=None,
    )

    separator: str | None = separator_param()
    decimal: str | None = decimal_param()
    encoding: str | None = encoding_param()

    def __post_init__(self) -> None:
        check_listed(
            type(self).__name__,
            {"id": self.id, "label": self.label},
            {"features": self.features, "dates": tuple(self.dates or ())},
            self.ignore,
        )

    @property
    def dialect(self) -> Dialect:
        """How CSV files are written, as far as the settings say."""
        return Dialect(self.separator, self.decimal, self.encoding)

    def read(self, path: Path) -> "pl.DataFrame":
        """A party's table, with its ids as they are written."""
        frame = read_frame(path, dialect=self.dialect, codes=[self.id])
        for name in self.columns(frame):
            if name not in (*self.features, *(self.dates or ())):
                strays.refuse(path, frame[name], _IF_WORDS)
        if self.label in frame.columns and self.regression is not False:
            strays.refuse(path, frame[self.label], IF_CLASSES)
        return frame

    def check_id(self, source: object, frame: "pl.DataFrame") -> None:
        """Raise DataError where a table has no id column."""
        if self.id not in frame.columns:
            raise DataError(
                f"{source}: every party's file must have the id column {self.id!r}. "
                f"{closest(self.id, frame.columns)}"
            )

    def divide(self, people: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of the common people are trained on, and which are held out."""
        held = 0 if self.test_fraction is None else round(self.test_fraction * people)
        order = np.random.default_rng(self.seed).permutation(people)
        held = min(held, people - 1)
        return np.sort(order[held:]), np.sort(order[:held])

    def columns(self, frame: "pl.DataFrame") -> list[str]:
        """The columns of a party's table that may be learned from."""
        listed = (*self.features, *(self.dates or ()))
        return [
            name
            for name in frame.columns
            if name not in (self.id, self.label, *self.ignore)
            and (not self.features or name in listed)
        ]

    def left_out(self, frame: "pl.DataFrame") -> dict[str, str]:
        """The columns of a party's table that look like keys or dates and are not named."""
        named = (*self.features, *(self.dates or ()))
        judged = {n: _why_left_out(frame[n]) for n in self.columns(frame) if n not in named}
        return {name: why for name, why in judged.items() if why is not None}

    def prepared(
        self, frame: "pl.DataFrame", train: np.ndarray, source: str = "a party's file"
    ) -> PartyPreparation:
        """How a party's columns become features, by the training rows."""
        left_out = self.left_out(frame)
        kept = frame.select([name for name in self.columns(frame) if name not in left_out])
        own = {n: list(parts) for n, parts in (self.dates or {}).items() if n in kept.columns}
        columns = [self._column(c, train, source) for c in with_parts(source, kept, own)]
        if not columns:
            raise DataError(
                f"{source}: every party must have a feature beside id and label. Add a column, or "
                f"name one that looks like keys in features."
            )
        return PartyPreparation(self.id, columns, own, self.encoding, self.standardise)

    def _column(self, column: "pl.Series", train: np.ndarray, source: str) -> Column:
        reading = Reading(self.label, features=(*self.features, column.name))
        if tables.kind_of(source, column, reading) == NUMBER:
            values = tables.numbers(source, column)
            known = values[train][~np.isnan(values[train])]
            centre, spread = (known.mean(), known.std()) if len(known) else (0.0, 1.0)
            return Column(column.name, 0, float(centre), float(scales(centre, spread)))
        words = tables.words_in(source, column[train], "Add it to ignore.")
        places = tables.places(column[train], words)
        counts = np.bincount(places[places >= 0], minlength=len(words)).tolist()
        return Column(column.name, 0, words=words, counts=counts)


def _why_left_out(column: "pl.Series") -> str | None:
    why = why_left_out(column)
    numbers = column.dtype.is_numeric() or str(column.dtype) == "Boolean"
    if why is not None or numbers or column.null_count() == len(column):
        return why
    counts = counted(tables.words(column).drop_nulls())["rows"].to_list()
    return RARE_REASON if tells_of_persons(counts, len(column)) else None


def labels_of(
    column: "pl.Series", regression: bool | None = None, source: object = "the label party's file"
) -> tuple[np.ndarray, np.ndarray | None]:
    """Classes as numbers with their names, or numbers as they are."""
    import polars as pl

    missing = tables.known(column).null_count()
    if missing:
        raise DataError(
            f"data.label: {column.name!r} must have a value for everyone; {missing} are missing. "
            f"Fill them in, or drop these rows."
        )
    there = tables.known(column)
    fractions = there.dtype.is_float() and not bool((there == there.round()).all())
    if fractions if regression is None else regression:
        return tables.numbers(str(source), column), None
    if there.dtype.is_float() and not fractions:
        there = there.cast(pl.Int64)  # 1.0 is class 1, as at sites that hold rows
    names, places = np.unique(np.asarray(there.to_list()), return_inverse=True)
    return places.astype(np.int64), names
