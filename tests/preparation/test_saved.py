"""Preparations that others hand on: whatever stands in one, it is used or refused in words."""

import copy
import itertools

import polars as pl
import pytest

from fedloom.errors import DataError
from fedloom.preparation import Preparation
from fedloom.preparation.encoding import Column

SOUND = Preparation(
    "ill",
    ["no", "yes"],
    [Column("age", 1, 50.0, 9.0), Column("ward", 0, words=["blue", "red"], counts=[7, 9])],
    [{"site": "north", "rows": 16}],
    left_out={"name": "a key"},
    dates={"seen": ["year"]},
).as_dict()
FRAME = pl.DataFrame({"age": [40.0, None], "ward": ["red", "blue"], "seen": ["2026-01-31"] * 2})
GONE = object()
JUNK = (
    *(GONE, None, True, 3, -1, 10**400, float("nan"), float("inf"), "x", "x" * 10**6),
    *([], [[1]], ["year", "year"], {}, {"a": {"b": 1}}, {1: 2}),
)


def places(value, path=()):
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in inside:
        yield (*path, key)
        if isinstance(entry, dict | list):
            yield from places(entry, (*path, key))


def forged(path, junk):
    values = copy.deepcopy(SOUND)
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    if junk is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = junk
    return values


def test_junk_at_any_place_is_used_or_refused_in_words():
    refused = 0
    for path, junk in itertools.product(places(SOUND), JUNK):
        try:
            made = Preparation.from_dict(forged(path, junk))
            assert made.encode("new.csv", FRAME).shape == (2, len(made.features))
        except DataError as error:
            assert len(str(error)) < 500 or junk == "x" * 10**6
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("whole", [None, 3, "x", [], {}, [SOUND]])
def test_what_is_no_preparation_is_refused(whole):
    with pytest.raises(DataError, match="another format"):
        Preparation.from_dict(whole)


def test_what_is_extra_is_refused():
    with pytest.raises(DataError, match="its 'more'"):
        Preparation.from_dict({**SOUND, "more": 1})
