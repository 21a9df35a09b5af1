"""Tables as people have them: keys and dates, frames, files of Europe, labels that are pairs."""

import gzip
import json

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.errors import DataError, FedloomError
from fedloom.preparation import PartyFiles, Preparation, SiteFiles, from_frames, prepare
from fedloom.preparation.tables import Reading
from preparation.tables_of_sites import KEYED, NORTH, SITES, SOUTH, keyed, site, write

READING = Reading("sick")


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


def test_frames_are_prepared_as_files_are():
    clients = prepare(SITES, READING)
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
        (lambda: from_frames({"": NORTH}, "sick"), "a site's name must be a text .* got ''"),
        (lambda: from_frames({"a": np.eye(2)}, "sick"), "site 'a': a table must be a frame"),
        (lambda: from_frames(tables, "sick", tests=1), "no option 'tests'"),
        (lambda: from_frames(tables, "sick", test={"norht": NORTH}), "Did you mean 'north'"),
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


@pytest.mark.parametrize("second", ["sick", " sick"])
def test_a_label_that_is_there_twice_is_told_by_every_reader(tmp_path, second):
    """Under another name the second one would be a feature, which is the label itself."""
    text = f"pid,height,sick,{second}\n" + "".join(
        f"{i},{i % 7}.5,{i % 2},{i % 2}\n" for i in range(30)
    )
    good, bad = tmp_path / "good", tmp_path / "bad"
    write(good, a=NORTH)
    bad.mkdir()
    (bad / "a.csv").write_text(text)
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write(text)
    table = NORTH.select("height", "sick")
    if second != "sick":
        table.with_columns(table["sick"].alias(second)).write_parquet(tmp_path / "a.parquet")
        with pytest.raises(DataError, match="differ only by blanks"):
            fl.data.load(tmp_path / "a.parquet", label="sick")
    twice = Pandas({"height": np.arange(4.0), "sick": np.array([0, 1, 0, 1])})
    twice.columns.append(second)
    twice.values.append(twice.values[-1])
    model = fl.simulate(
        fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), from_frames({"a": table}, "sick")
    )
    for read in (
        lambda: SiteFiles(str(bad), "sick").clients(),
        lambda: SiteFiles(str(good), "sick", test=str(bad)).clients(),
        lambda: PartyFiles(parties=str(bad), id="pid", label="sick").load(),
        lambda: fl.data.load(bad / "a.csv", label="sick"),
        lambda: fl.data.load(tmp_path / "a.csv.gz", label="sick"),
        lambda: fl.predict(model, bad / "a.csv", problem=fl.problems.Logistic()),
        lambda: from_frames({"a": twice}, "sick"),
    ):
        with pytest.raises(DataError, match=r"is there twice|differ only by blanks"):
            read()
