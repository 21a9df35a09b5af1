"""Which columns become features by themselves, and which words are shown."""

import numpy as np
import polars as pl
import pytest

from fedloom.cli.prepared import _column
from fedloom.errors import DataError
from fedloom.preparation import SiteTable, prepare
from fedloom.preparation.encoding import Column
from fedloom.preparation.tables import Reading

READING = Reading("sick")


def site(place, rows, seed, **columns):
    rng = np.random.default_rng(seed)
    table = pl.DataFrame(
        {
            "dose": rng.normal(size=rows),
            "age": rng.integers(20, 90, rows),
            "sick": np.arange(rows) % 2,
            **columns,
        }
    )
    return SiteTable(place, f"{place}.csv", table, table.clear())


def ids(rows, seed, back=0):
    """Numbers of patients, some of whom come back once."""
    numbers = np.random.default_rng(seed).permutation(10**6)[:rows]
    numbers[:back] = numbers[back : 2 * back]
    return pl.Series(numbers)


@pytest.mark.parametrize("back", [(0, 0, 1), (1, 1, 1), (0, 0, 5), (3, 5, 0)])
def test_patients_who_come_back_make_no_feature_of_their_numbers(back):
    sizes = (120, 260, 40)
    sites = [site(f"s{i}", rows, i, patient=ids(rows, i, back[i])) for i, rows in enumerate(sizes)]
    made = prepare(sites, READING).preparation
    assert list(made.left_out) == ["patient"]
    assert [column.name for column in made.columns] == ["dose", "age"]


def test_ages_that_differ_at_a_small_site_are_features():
    small = site("small", 24, 0).train.with_columns(age=pl.Series(range(30, 54)))
    sites = [SiteTable("small", "small.csv", small, small.clear()), site("large", 60, 1)]
    assert not prepare(sites, READING).preparation.left_out


def test_names_are_left_out_where_sites_are_small_or_names_repeat():
    small = [
        site(f"s{i}", 18, i, name=[f"Ms {i} {k}" for k in range(18)], ward=["a", "b"] * 9)
        for i in range(4)
    ]
    made = prepare(small, READING).preparation
    assert list(made.left_out) == ["name"] and "as with names" in made.left_out["name"]
    assert "Ms" not in str(made.as_dict())
    named = prepare(small, Reading("sick", categorical=("name",))).preparation
    assert len(named.columns[2].words) == 72
    # Surnames in natural frequencies: the k-th of 40 has about 60 / k rows.
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 41)
    drawn = rng.choice([f"name{k}" for k in range(40)], (3, 85), p=shares / shares.sum())
    many = [site(f"s{i}", 85, i, surname=drawn[i].tolist()) for i in range(3)]
    assert list(prepare(many, READING).preparation.left_out) == ["surname"]


def test_words_of_few_rows_are_not_shown():
    column = Column("ward", 0, words=["east", "gina", "otto", "west"], counts=[40, 1, 4, 5])
    assert _column(column)["summary"] == "east 40, west 5 and 2 rarer words"
    shown = ["ward=east", "ward: rarer word 1", "ward: rarer word 2", "ward=west"]
    assert column.shown_features == shown


def test_a_misspelt_column_to_ignore_is_an_error():
    sites = [site("a", 30, 0, remark=["x", "y"] * 15), site("b", 30, 1, remark=["x", "y"] * 15)]
    with pytest.raises(DataError, match=r"'remrak' is a column of no site. Did you mean 'remark'"):
        prepare(sites, Reading("sick", ignore=("dose", "remrak")))
    one = [sites[0], site("b", 30, 1)]  # a column that only one site has may be ignored
    assert len(prepare(one, Reading("sick", ignore=("remark",))).preparation.columns) == 2
