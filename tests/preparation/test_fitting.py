"""Tables of sites become rows of numbers: as if pooled, without being pooled."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.errors import DataError, FedloomError
from fedloom.exchange.in_process import InProcess
from fedloom.preparation import Preparation, SiteFiles, SiteTable, from_frames, prepare
from fedloom.preparation.fitting import Played
from fedloom.preparation.table_problem import TableProblem
from fedloom.preparation.tables import Reading

READING = Reading("sick")


def frame(rows, seed, words=("red", "blue"), gaps=0.0):
    rng = np.random.default_rng(seed)

    def with_gaps(values):
        return [None if rng.random() < gaps else value for value in values]

    height = rng.normal(1e6 + seed, 3, rows)
    return pl.DataFrame(
        {
            "height": with_gaps(height.tolist()),
            "colour": [
                None if rng.random() < gaps else str(rng.choice(words)) for _ in range(rows)
            ],
            "flag": rng.integers(0, 2, rows).astype(bool),
            "sick": rng.integers(0, 2, rows),
        }
    )


def site(name, train, test=None):
    return SiteTable(name, f"{name}.csv", train, train.clear() if test is None else test)


NORTH, SOUTH = frame(30, 0), frame(12, 5, ("red", "grün"), gaps=0.3)
SITES = [site("north", NORTH), site("south", SOUTH)]


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


def write(folder, **tables):
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")
    return folder


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


def with_keys(table, seed):
    """The table with keys of three types and a date, which is a key in all but its repetitions."""
    rng = np.random.default_rng(seed)
    rows = len(table)
    day = pl.Series(rng.integers(0, 4 * rows, rows)).cast(pl.Int32).cast(pl.Date)
    return table.with_columns(
        patient=pl.Series(rng.permutation(10**6)[:rows]),
        file=pl.Series([f"{seed}/{i}" for i in range(rows)]),
        admitted=day,
        age=pl.Series(rng.integers(20, 90, rows)),
    )


KEYED = {"north": with_keys(frame(60, 0), 0), "south": with_keys(frame(25, 5), 5)}


def keyed(folder, suffix):
    folder.mkdir()
    for name, table in KEYED.items():
        getattr(table, f"write_{suffix}")(folder / f"{name}.{suffix}")
    return str(folder)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_keys_and_dates_are_left_out_whatever_their_type_and_file(suffix, tmp_path):
    made = SiteFiles(keyed(tmp_path / "sites", suffix), "sick").clients().preparation
    assert made.left_out.keys() == {"patient", "file", "admitted"}
    assert "value of their own" in made.left_out["patient"] and "dates" in made.left_out["admitted"]
    assert [column.name for column in made.columns] == ["height", "colour", "flag", "age"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_dates_become_the_parts_that_are_asked_for(suffix, tmp_path):
    dates = {"admitted": ["month", "weekday", "days"]}
    options = {"features": ["height", "patient"], "dates": dates}
    clients = SiteFiles(keyed(tmp_path / "sites", suffix), "sick", **options).clients()
    made = clients.preparation
    names = ["height", "admitted month", "admitted weekday", "admitted days", "patient"]
    assert sorted(column.name for column in made.columns) == sorted(names) and not made.left_out
    pooled = pl.concat(KEYED.values())
    columns = {column.name: column for column in made.columns}
    days = pooled["admitted"].to_physical().to_numpy()
    assert columns["admitted days"].mean == pytest.approx(days.mean())
    month = columns["admitted month"]
    counted = dict(zip(month.words, month.counts, strict=True))
    months = pooled["admitted"].dt.month().cast(pl.String).value_counts().rows()
    assert counted == dict(months)
    again = Preparation.from_dict(json.loads(json.dumps(made.as_dict())))
    new = KEYED["north"].with_columns(pl.col("admitted").dt.strftime("%d.%m.%Y"))
    np.testing.assert_array_equal(again.encode("new", new), clients.of(0).x)


def test_a_small_site_does_not_make_a_key_of_a_measurement():
    north, south = (t.with_columns(height=pl.col("age")) for t in KEYED.values())
    distinct = south.with_columns(height=pl.Series(range(len(south))))
    made = prepare([site("a", north), site("b", distinct)], READING).preparation
    assert "height" in [column.name for column in made.columns]
    with pytest.raises(DataError, match=r"no column is left to learn from .*'height': most rows"):
        prepare([site("b", distinct.select("height", "sick"))], READING)


def test_what_is_named_is_a_feature_and_dates_are_not_by_themselves():
    sites = [site(name, table) for name, table in KEYED.items()]
    named = prepare(sites, Reading("sick", features=("patient", "file"))).preparation
    assert len(named.columns[1].words) == 85 and not named.left_out
    assert len(prepare(sites, Reading("sick", categorical=("file",))).preparation.columns) == 5
    with pytest.raises(DataError, match=r"'admitted' holds dates.*dates = \{ admitted ="):
        prepare(sites, Reading("sick", features=("admitted",)))


class Pandas:
    """A frame that can do what is asked of one of pandas."""

    def __init__(self, columns):
        self.columns = list(columns)
        self.values = list(columns.values())

    @property
    def iloc(self):
        return self

    def __getitem__(self, place):
        return PandasColumn(self.values[place[1]])


class PandasColumn:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values

    def isna(self):
        return [value is None or value != value for value in self.values.tolist()]


def as_pandas(table):
    """As pandas holds it: gaps are NaN in numbers, None among texts, and no whole numbers."""
    return Pandas(
        {
            series.name: np.asarray(series.to_list(), object)
            if series.dtype == pl.String
            else series.to_numpy()
            for series in table
        }
    )


def test_frames_are_prepared_as_files_are(tmp_path, clients):
    tables = {"north": NORTH, "south": SOUTH}
    made = from_frames(tables, "sick")
    np.testing.assert_array_equal(made.train.x, clients.train.x)
    other = from_frames({name: as_pandas(table) for name, table in tables.items()}, "sick")
    np.testing.assert_array_equal(other.train.x, clients.train.x)
    tested = from_frames(tables, "sick", test={"south": SOUTH[:5].lazy()}, ignore=["height"])
    assert tested.test_sizes.tolist() == [0, 5] and tested.train.x.shape[1] == 5
    keyed = {name: as_pandas(table) for name, table in KEYED.items()}
    dated = from_frames(keyed, "sick", dates={"admitted": ["year"]}, test_fraction=0.2)
    assert dated.left_out.keys() == {"patient", "file"}
    for wrong, complaint in (
        (lambda: from_frames([NORTH], "sick"), "mapping from the names of sites"),
        (lambda: from_frames({"a": np.eye(2)}, "sick"), "site 'a': a table must be a frame"),
        (lambda: from_frames(tables, "sick", tests=1), "no option 'tests'"),
        (lambda: from_frames(tables, "sick", test={"nord": NORTH}), "Did you mean 'north'"),
        (lambda: from_frames(tables, "sik"), "must have a column 'sik'"),
    ):
        with pytest.raises(FedloomError, match=complaint):
            wrong()


def test_files_of_europe(tmp_path):
    table = NORTH.with_columns(height=(pl.col("height") - 1e6).round(3), colour=pl.lit("grün"))
    plain = from_frames({"a": table}, "sick")
    text = table.write_csv(separator=";").replace(".", ",")
    for encoding, options in (
        ("utf-8-sig", {}),
        ("utf-16", {}),
        ("latin-1", {"encoding": "latin-1"}),
        ("utf-8", {"encoding": "latin-1", "separator": ";", "decimal": ","}),
    ):
        (tmp_path / "a.csv").write_bytes(text.encode(encoding))
        made = SiteFiles(str(tmp_path), "sick", **options).clients()
        np.testing.assert_allclose(made.train.x, plain.train.x, rtol=1e-12)
        assert made.preparation.features == plain.preparation.features
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"line 2: .* UTF-8; got byte 0xfc. Name its encoding"):
        SiteFiles(str(tmp_path), "sick").clients()
    with pytest.raises(FedloomError, match=r"encoding must be the name of an encoding.*'latin-77'"):
        SiteFiles(str(tmp_path), "sick", encoding="latin-77")


def test_labels_that_are_pairs():
    rng = np.random.default_rng(0)
    tables = {
        name: table.with_columns(
            days=pl.Series(rng.integers(1, 90, len(table))),
            died=pl.Series(rng.integers(0, 2, len(table))),
        )
        for name, table in (("north", NORTH), ("south", SOUTH))
    }
    made = from_frames(tables, "days", event="died", ignore=["sick"], test_fraction=0.2)
    assert made.labels is None and made.train.y.shape == (34, 2) and made.test.y.shape == (8, 2)
    assert "died" not in made.preparation.features
    whole = np.concatenate([made.of(0).y, made.test_of(0).y])
    assert sorted(map(tuple, whole)) == sorted(tables["north"].select("days", "died").rows())
    single = fl.data.load(tables["south"], label="days", exposure="days", missing="drop")
    np.testing.assert_array_equal(single.y[:, 0], single.y[:, 1])
    options = {"rounds": 2, "batch_size": None, "eval_every": 2}
    method = fl.algorithms.FedAvg(lr=0.1)
    assert "concordance" in fl.simulate(method, fl.problems.Cox(), made, **options).final
    with pytest.raises(DataError, match=r"north: column 'colour' must hold 1 for an event or 0"):
        from_frames(tables, "days", event="colour")
    with pytest.raises(FedloomError, match=r"event goes with a time.*got both"):
        from_frames(tables, "days", event="died", exposure="sick")
