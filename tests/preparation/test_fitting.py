"""Tables of sites become rows of numbers: as if pooled, without being pooled."""

import json

import jax
import numpy as np
import polars as pl
import pytest

from fedloom.errors import DataError
from fedloom.exchange.in_process import InProcess
from fedloom.preparation import Preparation, SiteFiles, prepare
from fedloom.preparation.fitting import Played
from fedloom.preparation.table_problem import TableProblem
from fedloom.preparation.tables import Reading
from preparation.tables_of_sites import NORTH, SITES, SOUTH, frame, site, write

READING = Reading("sick")


def in_process(algorithm, clients):
    """Only bytes pass between hub and sites."""
    with jax.enable_x64(True):
        network = InProcess(
            algorithm, TableProblem(), clients, batch_size=None, precision="float64"
        )
        info = network.step()
        hub, info = jax.tree.map(np.asarray, (network.hub, info))
    return Played(hub, info, network.bytes_up, network.bytes_down)


@pytest.fixture(scope="module")
def clients():
    return prepare(SITES, READING)


def test_statistics_are_those_of_the_pooled_table(clients):
    pooled = pl.concat([NORTH, SOUTH])
    height, colour, flag = clients.preparation.columns
    known = pooled["height"].drop_nulls().to_numpy()
    assert height.mean == pytest.approx(known.mean(), rel=1e-14)
    assert height.deviation == pytest.approx(known.std(), rel=1e-9)  # despite the mean of 1e6
    assert height.missing == pooled["height"].null_count() > 0
    assert colour.words == ["blue", "grün", "red"]
    counted = pooled["colour"].value_counts().drop_nulls().rows()
    assert dict(zip(colour.words, colour.counts, strict=True)) == dict(counted)
    assert colour.missing == pooled["colour"].null_count() > 0
    assert flag.words is None and flag.missing == 0
    assert clients.preparation.features == [
        "height", "height is missing", "colour=blue", "colour=grün", "colour=red",
        "colour is missing", "flag",
    ]  # fmt: skip


def test_rows_are_encoded_as_stated(clients):
    x = clients.of(1).x
    gaps = SOUTH["height"].is_null().to_numpy()
    assert (x[gaps, 0] == 0).all() and (x[:, 1] == gaps).all()
    no_word = SOUTH["colour"].is_null().to_numpy()
    np.testing.assert_array_equal(x[:, 2:5].sum(1), ~no_word)
    np.testing.assert_array_equal(x[:, 5], no_word)
    np.testing.assert_array_equal(x[:, 4], (SOUTH["colour"] == "red").fill_null(False))
    standard = clients.train.x[clients.train.x[:, 1] == 0, 0]
    assert standard.mean() == pytest.approx(0, abs=1e-8) and standard.std() == pytest.approx(1)
    np.testing.assert_array_equal(clients.of(0).y, NORTH["sick"])


def test_what_is_missing_is_reported_for_each_site(clients):
    north, south = clients.preparation.sites
    assert north["missing values"] == {} and north["rows"] == 30
    assert south["missing values"] == {
        "height": SOUTH["height"].null_count(), "colour": SOUTH["colour"].null_count()
    }  # fmt: skip


def test_the_same_exchanges_over_bytes(clients):
    other = prepare(SITES, READING, engine=in_process)
    np.testing.assert_allclose(other.train.x, clients.train.x, rtol=1e-12, atol=1e-9)
    one, again = clients.preparation, other.preparation
    assert (one.bytes_up, one.bytes_down) == (again.bytes_up, again.bytes_down)
    assert one.sites == again.sites


def test_what_leaves_a_site_does_not_grow_with_its_rows(clients):
    larger = [site(s.name, pl.concat([s.train] * 5)) for s in SITES]
    assert prepare(larger, READING).preparation.bytes_up == clients.preparation.bytes_up


def test_a_preparation_survives_json(clients):
    saved = json.loads(json.dumps(clients.preparation.as_dict()))
    again = Preparation.from_dict(saved)
    assert again == clients.preparation
    np.testing.assert_array_equal(again.encode("x", NORTH), clients.of(0).x)


def test_a_word_that_training_lacked_is_none_of_the_words():
    test = frame(6, 1, ("red", "black"))
    prepared = prepare([site("north", NORTH, test), SITES[1]], READING)
    black = (test["colour"] == "black").to_numpy()
    north, south = prepared.preparation.sites
    assert north["unknown words in test rows"] == {"colour": int(black.sum())}
    assert south["unknown words in test rows"] == {}
    x = prepared.test_of(0).x
    assert not x[black, 2:6].any() and x[~black, 2:6].any(1).all()
    assert len(prepared.test_of(1).y) == 0


def test_a_site_with_one_row_and_one_class_takes_part():
    prepared = prepare([*SITES, site("tiny", frame(1, 9))], READING)
    assert prepared.sizes.tolist() == [30, 12, 1] and prepared.classes == 2


def test_constant_columns_and_numbers_as_words():
    def constant(table):
        return table.with_columns(
            pl.lit(1e-3).alias("height"), pl.Series("flag", [2.0] * len(table))
        )

    reading = Reading("sick", categorical=("flag",))
    sites = [site("a", constant(NORTH)), site("b", constant(SOUTH).with_columns(flag=pl.lit(3)))]
    prepared = prepare(sites, reading)
    height, _, flag = prepared.preparation.columns
    assert height.deviation == 1 and abs(prepared.train.x[:, 0]).max() < 1e-15
    assert flag.words == ["2", "3"] and flag.counts == [30, 12]


def test_a_column_may_be_empty_at_a_site_and_stand_elsewhere(tmp_path):
    odd = SOUTH[:, ["sick", "flag", "colour", "height"]].with_columns(
        height=pl.lit(None), colour=pl.lit(None), flag=pl.lit(float("inf"))
    )
    folder = write(tmp_path / "sites", north=NORTH, south=odd)
    prepared = SiteFiles(str(folder), "sick").clients()
    gaps = {"height": 12, "flag": 12, "colour": 12}
    assert prepared.preparation.sites[1]["missing values"] == gaps
    expected = prepare([site("north", NORTH)], READING).preparation
    for column, alone in zip(prepared.preparation.columns, expected.columns, strict=True):
        assert column.mean == pytest.approx(alone.mean) and column.words == alone.words
    np.testing.assert_array_equal(prepared.of(1).x[0], [0, 1, 0, 0, 1, 0, 1])
    write(folder, north=NORTH.with_columns(height=pl.lit(None)))
    with pytest.raises(DataError, match=r"north.csv: column 'height' has no value in any row"):
        SiteFiles(str(folder), "sick").clients()


def test_too_many_words_over_all_sites():
    wide = pl.concat([NORTH] * 40)
    codes = [pl.Series("colour", [f"{letter}{i // 2}" for i in range(1200)]) for letter in "ab"]
    sites = [site(str(i), wide.with_columns(code)) for i, code in enumerate(codes)]
    with pytest.raises(DataError, match=r"at most 1000 different ones over all sites.*1200"):
        prepare(sites, READING)


def test_a_regression():
    rng = np.random.default_rng(0)
    tables = [t.with_columns(sick=pl.Series(rng.normal(size=len(t)))) for t in (NORTH, SOUTH)]
    prepared = prepare([site("a", tables[0]), site("b", tables[1])], READING)
    assert prepared.labels is None and prepared.preparation.classes is None
    np.testing.assert_array_equal(prepared.of(1).y, tables[1]["sick"])


def test_held_out_rows_of_a_site_do_not_depend_on_other_sites(tmp_path):
    folder = write(tmp_path / "sites", north=NORTH, south=SOUTH)
    files = SiteFiles(str(folder), "sick", test_fraction=0.25)
    _, south = files.tables()
    assert (south.train.height, south.test.height) == (9, 3)
    assert sorted(pl.concat([south.train, south.test]).rows(), key=str) == sorted(
        SOUTH.rows(), key=str
    )
    (folder / "north.csv").unlink()
    assert files.tables()[0].train.equals(south.train)
    moved = SiteFiles(str(folder), "sick", test_fraction=0.25, seed=1).tables()[0]
    assert not moved.train.equals(south.train)


def test_rows_without_a_label_are_set_aside_and_reported(tmp_path):
    gaps = NORTH.with_columns(sick=pl.when(pl.col("flag")).then(pl.col("sick")))
    folder = write(tmp_path, north=gaps, south=SOUTH)
    prepared = SiteFiles(str(folder), "sick").clients()
    assert prepared.preparation.sites[0]["without label"] == int((~NORTH["flag"]).sum())
    assert prepared.sizes[0] == int(NORTH["flag"].sum())


def test_parquet_compressed_csv_and_test_files(tmp_path):
    import gzip

    NORTH.write_parquet(tmp_path / "north.parquet")
    (tmp_path / "south.csv.gz").write_bytes(gzip.compress(SOUTH.write_csv().encode()))
    write(tmp_path / "test", south=SOUTH[:5])
    tables = SiteFiles(str(tmp_path), "sick", test=str(tmp_path / "test/*.csv")).tables()
    assert [(t.name, t.train.height, t.test.height) for t in tables] == [
        ("north", 30, 0), ("south", 12, 5)
    ]  # fmt: skip
