"""The proposals of sites about their tables, and the schema that the hub makes of them.

A proposal is JSON: for every column its kind and, if it holds words, the words of the training
rows; likewise for the label; which columns of `ignore` it has; and the number of rows. It names no
row and counts nothing else. Of a column that looks like keys or dates, and that the settings do not
name, it says only that. Texts that are keys at one site are features nowhere, because their words
would be disclosed. Whole numbers are keys if the sites that find so have at least half of the rows
of all sites that can decide: measurements seldom repeat in a small table, but do in a large one.
A site judges by all rows of its file, held-out ones too: the same columns are features however the
rows are divided. It looks at how often values repeat, and at no label.
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.columns import (
    DATE_REASON,
    KEY_REASON,
    all_differ,
    is_key,
    judges,
    together_a_key,
)
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.preparation import tables
from fedloom.preparation.tables import (
    DATE,
    EMPTY,
    KEY,
    MOST_WORDS,
    NUMBER,
    WORD,
    Reading,
    SiteTable,
)

if TYPE_CHECKING:
    import polars as pl

_WHOLE, _REAL = "whole numbers", "numbers"
# Whether most rows of a column of numbers have one of their own; perhaps: all of too few.
_NO, _YES, _UNTOLD, _PERHAPS = 0, 1, 2, 3
_LARGEST = 2.0**53  # beyond which whole numbers are no longer told apart


@dataclasses.dataclass(frozen=True)
class AgreedColumns:
    """What all sites agreed on."""

    label: str
    classes: list[Any] | None  # None: a regression
    columns: dict[str, list[str] | None]  # the words of each column; None: numbers
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # no features, and why

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers."""
        return [name for name, listed in self.columns.items() if listed is None]

    @property
    def words(self) -> dict[str, list[str]]:
        """The columns of words, with their words."""
        return {name: listed for name, listed in self.columns.items() if listed is not None}


def propose(site: SiteTable, reading: Reading, least: int = 1) -> str:
    """What a site says of its table; words that fewer than `least` rows hold are not told."""
    columns: dict[str, dict[str, Any]] = {}
    for name in site.features(reading):
        series = site.train[name]
        kind = tables.kind_of(site.source, series, reading)
        if kind == WORD and not reading.names(name) and is_key(site.all_values(name)):
            kind = KEY
        columns[name] = {"kind": kind}
        if kind == WORD:
            columns[name]["words"] = tables.words_in(
                site.source, series, "Add it to ignore, or to numeric.", least
            )
        elif kind == NUMBER:
            tables.numbers(site.source, series)  # raises where the file lies
            values = tables.known(site.all_values(name))
            columns[name]["own"] = _UNTOLD if reading.names(name) else _own(values)
    told = {
        "columns": columns,
        "label": _label(site, reading),
        "ignored": [name for name in reading.ignore if name in site.train.columns],
        "rows": site.train.height,
    }
    return json.dumps(told, ensure_ascii=False)


def _own(values: "pl.Series") -> int:
    if judges(values):
        return _YES if is_key(values) else _NO
    return _PERHAPS if all_differ(values) else _UNTOLD


def _label(site: SiteTable, reading: Reading) -> dict[str, Any]:
    series = site.train[reading.label]
    numeric = (reading.label,) if reading.regression else ()
    plain = dataclasses.replace(reading, categorical=(), numeric=numeric)
    if tables.kind_of(site.source, series, plain) == WORD:
        remedy = "Is it the label?"
        return {"kind": WORD, "classes": tables.words_in(site.source, series, remedy)}
    values = np.unique(tables.numbers(site.source, series))
    whole = not reading.regression and bool(
        ((values == np.round(values)) & (np.abs(values) <= _LARGEST)).all()
    )
    if not whole or len(values) > MOST_WORDS:
        return {"kind": _REAL if not whole else _WHOLE, "classes": None}
    return {"kind": _WHOLE, "classes": values.astype(int).tolist()}


def agree(texts: Mapping[str, str], reading: Reading) -> AgreedColumns:
    """The schema for all sites, from the proposals by the names of their files."""
    said = {source: json.loads(text) for source, text in texts.items()}
    first = next(iter(said))
    names = list(said[first]["columns"])
    for source, proposal in said.items():
        for name in names:
            if name not in proposal["columns"]:
                raise _differ(source, name, "is missing", first)
        for name in proposal["columns"]:
            if name not in names:
                raise _differ(first, name, "is missing", source)
    _check_listed(first, names, reading)
    _check_ignored(said, names, reading)
    if not names:
        raise DataError(f"{first}: there must be a column beside the label; got none. Add some.")
    by_column = {
        name: {source: proposal["columns"][name] for source, proposal in said.items()}
        for name in names
    }
    rows = {source: proposal["rows"] for source, proposal in said.items()}
    left_out = {n: why for n, told in by_column.items() if (why := _why_left_out(n, told, rows))}
    columns = {n: _column(n, told) for n, told in by_column.items() if n not in left_out}
    check_some_left(columns, left_out)
    labels = {source: proposal["label"] for source, proposal in said.items()}
    return AgreedColumns(reading.label, _classes(labels, reading), columns, left_out)


def check_some_left(columns: Collection[Any], left_out: Mapping[str, str]) -> None:
    """Raise DataError where nothing is left to learn from."""
    if not columns:
        reasons = "; ".join(f"{name!r}: {why}" for name, why in left_out.items())
        raise DataError(
            f"data.sites: no column is left to learn from ({reasons}). Name those that are to be "
            f"used in features."
        )


def _why_left_out(name: str, said: dict[str, Any], rows: dict[str, int]) -> str | None:
    """Why a column that the settings do not name is no feature; None where it is one."""
    kinds = {entry["kind"]: source for source, entry in reversed(said.items())}
    for one, other in ((DATE, NUMBER), (DATE, WORD), (KEY, NUMBER)):
        if one in kinds and other in kinds:
            raise _mixed(name, kinds, WORD if one == KEY else one, other, kinds[one])
    if DATE in kinds:
        return DATE_REASON
    votes: dict[int, list[int]] = {_NO: [], _YES: [], _UNTOLD: [], _PERHAPS: []}
    for source, entry in said.items():
        if entry["kind"] == NUMBER:
            votes[entry["own"]].append(rows[source])
    if votes[_NO] or votes[_YES]:
        key = sum(votes[_YES]) >= sum(votes[_NO])
    else:
        key = not votes[_UNTOLD] and together_a_key(votes[_PERHAPS])
    return KEY_REASON if KEY in kinds or key else None


def _mixed(
    name: str, kinds: dict[str, str], one: str, other: str, source: str | None = None
) -> DataError:
    return DataError(
        f"{source or kinds[one]}: column {name!r} holds {one}s, and in {kinds[other]} {other}s. "
        f"Correct the values, or add the column to categorical, numeric or ignore."
    )


def _differ(source: str, name: str, what: str, other: str) -> DataError:
    return DataError(
        f"{source}: all sites must have the same columns; {name!r} {what}, and {other} has it. "
        f"Add the column there, or add it to ignore."
    )


def _check_listed(source: str, names: list[str], reading: Reading) -> None:
    for option in ("categorical", "numeric"):
        for name in getattr(reading, option):
            if name not in names:
                raise DataError(
                    f"{source}: {option} lists {name!r}, which is not a column to learn from. "
                    f"Take it out, or correct the name."
                )


def _check_ignored(said: dict[str, Any], names: list[str], reading: Reading) -> None:
    """A misspelt name would leave in what is to be left out."""
    there = {name for proposal in said.values() for name in proposal["ignored"]}
    for name in reading.ignore:
        if name not in there:
            raise DataError(
                f"data.ignore: {name!r} is a column of no site. "
                f"{closest(name, [*names, *sorted(there)])}"
            )


def _column(name: str, said: dict[str, Any]) -> list[str] | None:
    """The words of a column, or None for numbers."""
    kinds = {entry["kind"]: source for source, entry in reversed(said.items())}
    if NUMBER in kinds and WORD in kinds:
        raise _mixed(name, kinds, WORD, NUMBER)
    if set(kinds) == {EMPTY}:
        raise DataError(
            f"{next(iter(said))}: column {name!r} has no value in any row of any site. "
            f"Add it to ignore."
        )
    if NUMBER in kinds:
        return None
    union = sorted({word for entry in said.values() for word in entry.get("words", ())})
    if len(union) > MOST_WORDS:
        raise DataError(
            f"{kinds[WORD]}: a column of words must have at most {MOST_WORDS} different ones over "
            f"all sites; {name!r} has {len(union)}. Add it to ignore."
        )
    return union


def _classes(said: dict[str, Any], reading: Reading) -> list[Any] | None:
    """The classes of all sites, sorted; None for a regression."""
    kinds = {entry["kind"]: source for source, entry in reversed(said.items())}
    if WORD in kinds and len(kinds) > 1:
        other = next(source for kind, source in kinds.items() if kind != WORD)
        raise DataError(
            f"{kinds[WORD]}: the label {reading.label!r} holds words, and in {other} numbers. "
            f"Write the classes alike at all sites."
        )
    if _REAL in kinds and reading.regression is not False:
        return None
    unlisted = next((source for source, entry in said.items() if entry["classes"] is None), None)
    union = sorted({value for entry in said.values() for value in entry["classes"] or ()})
    if unlisted is not None or len(union) > MOST_WORDS:
        raise DataError(
            f"{unlisted or next(iter(said))}: the label {reading.label!r} must be one of at most "
            f"{MOST_WORDS} classes. For numbers to predict, set regression = true."
        )
    if len(union) < 2:
        raise DataError(
            f"{next(iter(said))}: the label {reading.label!r} must have two classes or more over "
            f"all sites; got {union[0]!r} in every row. Is it the label?"
        )
    return union
