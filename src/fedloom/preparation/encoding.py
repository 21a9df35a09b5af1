"""How raw columns become features, once it is settled: what is saved with a model."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.columns import FEW_ROWS
from fedloom.data.dates import with_parts
from fedloom.data.labels import paired
from fedloom.errors import DataError
from fedloom.preparation import tables
from fedloom.preparation.saved import check_saved

if TYPE_CHECKING:
    import polars as pl

_FORMAT = 1
_MANY_CLASSES = 8  # whole numbers as many as these are rather numbers to predict


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of numbers, which is standardised, or of words, one feature for each word.

    Where a training row of any site had no value, there is one more feature, which is 1 in rows
    without a value. A missing number then counts as the mean; a missing word, or one that no site
    had in training, as none of the words.
    """

    name: str
    missing: int  # training rows without a value, over all sites
    mean: float = 0.0
    deviation: float = 1.0
    words: list[str] | None = None  # None: numbers
    counts: list[int] | None = None  # how often each word occurs in training rows

    @property
    def features(self) -> list[str]:
        """The names of the features that the column becomes."""
        own = [self.name] if self.words is None else [f"{self.name}={w}" for w in self.words]
        return [*own, f"{self.name} is missing"] if self.missing else own

    @property
    def shown_features(self) -> list[str]:
        """The names for people to read, without words that only a few training rows had."""
        names, rarer = self.features, 0
        for place, count in enumerate(self.counts or ()):
            if count < FEW_ROWS:
                rarer += 1
                names[place] = f"{self.name}: rarer word {rarer}"
        return names

    def encode(self, source: str, series: "pl.Series") -> np.ndarray:
        """The features of each row."""
        if self.words is None:
            values = (tables.numbers(source, series) - self.mean) / self.deviation
            absent = np.isnan(values)
            block = np.where(absent, 0, values)[:, None]
        else:
            places = tables.places(series, self.words)
            absent = tables.known(series).is_null().to_numpy()
            block = (places[:, None] == np.arange(len(self.words))).astype(np.float64)
        return np.column_stack([block, absent]) if self.missing else block

    def unknown_words(self, series: "pl.Series") -> int:
        """How many rows hold a word that no site had in training."""
        if self.words is None:
            return 0
        places = tables.places(series, self.words)
        return int(((places < 0) & tables.words(series).is_not_null().to_numpy()).sum())

    def strange(self, series: "pl.Series") -> str | None:
        """In words, how many rows hold a word that no training row had, and never which."""
        strange = self.unknown_words(series)
        if not strange:
            return None
        return (
            f"column {self.name!r}: {strange} of {series.len()} rows hold a word that no training "
            f"row had; it counts as none of the words"
        )


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How the columns of a table become features, learned from the tables of all sites."""

    label: str
    classes: list[Any] | None  # None: a regression
    columns: list[Column]
    sites: list[dict[str, Any]]  # for each: its name, its rows, what was missing
    bytes_up: int = 0  # what the preparation cost in communication
    bytes_down: int = 0
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # columns, and why
    dates: dict[str, list[str]] = dataclasses.field(
        default_factory=dict
    )  # the parts that are taken
    encoding: str | None = None  # of CSV files that are not UTF-8, new ones too
    event: str | None = None  # the column of events beside the label
    exposure: str | None = None  # or that of exposures
    complete: bool = False  # whether every row must have all values

    @property
    def features(self) -> list[str]:
        """The names of all features."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def shown_features(self) -> list[str]:
        """The same for people to read, without words that only a few training rows had."""
        return [feature for column in self.columns for feature in column.shown_features]

    def encode(self, source: str, frame: "pl.DataFrame") -> np.ndarray:
        """The features of each row of a table, (rows, features)."""
        frame = with_parts(source, frame, self.dates)
        tables.require(source, frame, [column.name for column in self.columns])
        if self.complete:
            self._check_complete(source, frame)
        return np.concatenate(
            [column.encode(source, frame[column.name]) for column in self.columns], axis=1
        )

    def _check_complete(self, source: str, frame: "pl.DataFrame") -> None:
        for column in self.columns:
            gaps = tables.known(frame[column.name]).null_count()
            if gaps:
                raise DataError(
                    f"{source}: column {column.name!r} must have a value in every row, as in "
                    f"training; {gaps} of {frame.height} rows have none. Fill them in, or drop the "
                    f"rows."
                )

    def encode_labels(self, source: str, frame: "pl.DataFrame") -> np.ndarray:
        """Classes as 0, 1, ..., or the numbers of a regression, or pairs of numbers."""
        series = frame[self.label]
        if self.classes is None:
            values, second = tables.numbers(source, series), self.event or self.exposure
            if second is None:
                return values
            return paired(source, values, frame[second], is_event=self.event is not None)
        listed = [str(label) for label in self.classes]
        places = tables.places(series, listed)
        if (places < 0).any():
            row = int(np.argmax(places < 0))
            numbers = len(listed) >= _MANY_CLASSES and not isinstance(self.classes[0], str)
            hint = (
                " Where it is a number to predict and no class, set regression = true in [data]; "
                'for counts also kind = "poisson" in [problem].'
            )
            raise DataError(
                f"{source}: every {self.label!r} must be one of {', '.join(listed)}; got "
                f"{series[row]!r}. Correct it, or add such rows to the training rows of a site."
                f"{hint if numbers else ''}"
            )
        return places

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"format": _FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preparation":
        """What `as_dict` returned; raises DataError where it is something else."""
        values = dict(values) if isinstance(values, dict) else {}
        if values.pop("format", None) != _FORMAT:
            raise DataError(
                f"the preparation was written in another format than {_FORMAT}. "
                f"Read it with the fedloom version that wrote it."
            )
        check_saved(values)
        columns = [Column(**column) for column in values.pop("columns")]
        return cls(columns=columns, **values)


def plain_encoding(
    label: str, classes: list[Any] | None, features: Sequence[str], columns: Sequence[str] = ()
) -> Preparation:
    """How complete tables become features that are called so: numbers as they are, words one-hot.

    The feature `column=word` was made of a word; `columns` names the columns where they are known.
    """
    made: dict[str, list[str] | None] = {}
    for feature in features:
        known = [name for name in columns if feature == name or feature.startswith(f"{name}=")]
        name = max(known, key=len, default=feature.partition("=")[0])
        if feature == name:
            made[name] = None
        else:
            made[name] = [*(made.get(name) or []), feature[len(name) + 1 :]]
    found = [Column(name, 0, words=words) for name, words in made.items()]
    return Preparation(label, classes, found, [], complete=True)
