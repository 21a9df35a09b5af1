"""Files of parties that hold other columns of the same people."""

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.errors import FedloomError, ParameterError
from fedloom.preparation import PartyFiles

SETTINGS = """
[data]
parties = "parties/*.csv"
id = "who"
label = "ill"
join = "plain"
test_fraction = 0.25
[problem]
kind = "vertical"
loss = "logistic"
[algorithm]
key = "egvfl"
[run]
rounds = 300
precision = "float64"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A laboratory with the diagnoses and a clinic, which do not know quite the same people."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    marker, ward = rng.normal(size=80), rng.choice(["red", "blue"], 80)
    ill = np.where(marker + (ward == "red") + rng.normal(0, 0.2, 80) > 0.5, "yes", "no")
    people = np.array([f"p{i}" for i in range(80)])
    (tmp_path / "parties").mkdir()
    laboratory = pl.DataFrame({"who": people, "marker": marker, "ill": ill})
    laboratory[:75].write_csv("parties/laboratory.csv")
    order = rng.permutation(np.arange(5, 80))
    ages: list[float | None] = [30.5 + i for i in range(80)]
    ages[10] = None
    clinic = pl.DataFrame({"who": people, "ward": ward, "age": ages})
    clinic[order].write_csv("parties/clinic.csv")
    return tmp_path


def test_run_joins_trains_and_says_what_it_dropped(folder, capsys):
    (folder / "run.toml").write_text(SETTINGS)
    assert main(["run", "run.toml", "--out", "kept"]) == 0
    printed = capsys.readouterr().out
    assert "70 people known to all; dropped: 5 rows of laboratory, 5 rows of clinic" in printed
    result = fl.load("kept")
    assert result.final["accuracy"] > 0.8
    assert set(result.model) == {"laboratory", "clinic"}
    assert "70 people" in result.about["alignment"]


def test_the_pattern_must_be_named_and_the_message_says_so():
    said = r"^PartyFiles: pass parties by name \(parties=...\); values without a name start with id"
    for values, named in ((("parties/*.csv", "who", "ill"), {"join": "plain"}), (("p", "who"), {})):
        with pytest.raises(ParameterError, match=said):
            PartyFiles(*values, **named)
    with pytest.raises(ParameterError, match="PartyFiles is given label twice"):
        PartyFiles("who", "ill", label="ill", parties="parties")


def test_rows_are_the_same_people_and_columns_are_prepared(folder):
    made = PartyFiles(parties="parties", id="who", label="ill", join="plain").load()
    assert made.names == ("laboratory", "clinic") and made.widths == (1, 3)
    assert made.labels.tolist() == ["no", "yes"]
    laboratory, clinic = (pl.read_csv(f"parties/{name}.csv") for name in made.names)
    whole = laboratory.join(clinic, on="who", maintain_order="left")
    marker = whole["marker"].to_numpy()
    np.testing.assert_allclose(made.features[0][:, 0], (marker - marker.mean()) / marker.std())
    np.testing.assert_array_equal(made.features[1][:, 1], (whole["ward"] == "red").to_numpy())
    ages = whole["age"].to_numpy()
    assert made.features[1][np.isnan(ages), 2] == 0 == np.isnan(made.features[1]).sum()
    np.testing.assert_array_equal(made.y, (whole["ill"] == "yes").to_numpy())


def test_another_value_in_a_column_that_was_constant_in_training_stays_small():
    """Of 0.1 everywhere rounding leaves a deviation of 1e-17."""
    files = PartyFiles(parties="parties", id="who", label="ill")
    doses = pl.DataFrame({"who": range(1001), "dose": [*[0.1] * 1000, 0.3]})
    dose = files.prepared(doses, np.arange(1000)).encode("doses", doses)[:, 0]
    np.testing.assert_allclose(dose, [*[0.0] * 1000, 0.2], atol=1e-12)


@pytest.mark.parametrize(
    "changes,complaint",
    [
        ({"id": "whoo"}, "must have the id column 'whoo'. Did you mean 'who'"),
        ({"label": "age2"}, "must be a column of exactly one file; it is in none"),
        ({"label": "who"}, "must be a column of exactly one file; it is in clinic, laboratory"),
        ({"parties": "nowhere/*.csv"}, "no CSV or Parquet file at 'nowhere/"),
        ({"ignore": ["marker"]}, "laboratory.csv: every party must have a feature"),
        ({"features": ["markr"]}, "features: 'markr' is a column of no party. Did you mean 'mark"),
        ({"dates": {"day": ["month"]}}, "data.dates: 'day' is a column of no party"),
        ({"features": ["ill", "age"]}, "'ill' is the label, and is not to be listed"),
        ({"ignore": ["who"]}, "'who' is the id, and is not to be listed"),
        ({"features": ["age"], "ignore": ["age"]}, "'age' is in ignore and in another list"),
    ],
)
def test_wrong_files_get_a_clear_error(changes, complaint, folder):
    options = {"parties": "parties", "id": "who", "label": "ill", "join": "plain"} | changes
    with pytest.raises(FedloomError, match=complaint):
        PartyFiles(**options).load()


def test_odd_columns_are_refused_or_filled(folder):
    file = folder / "parties" / "clinic.csv"
    frame = pl.read_csv(file)
    rows = np.arange(frame.height)
    options = {"parties": "parties", "id": "who", "label": "ill", "join": "plain"}

    def load(**columns):
        frame.with_columns(**columns).write_csv(file)
        return PartyFiles(**options).load()

    plain = load()
    day = pl.date(2026, 1, 1) + pl.duration(days=pl.int_range(pl.len()) % 9)
    named = load(name=pl.Series([f"n{i}" for i in rows]), number=pl.Series(rows), admitted=day)
    assert named.widths == plain.widths
    for column in ("name", "number", "admitted"):
        assert f"left out '{column}' of clinic" in named.alignment
    options |= {"features": ["marker", "number"], "dates": {"admitted": ["day", "weekday"]}}
    assert load(number=pl.Series(rows), admitted=day).widths == (1, 9)
    options = {name: options[name] for name in ("parties", "id", "label", "join")}
    surnames = load(surname=pl.Series([f"n{i // 3}" for i in rows]))
    assert surnames.widths == plain.widths and "left out 'surname' of clinic" in surnames.alignment
    with pytest.raises(FedloomError, match=r"'agge' is a column of no party. Did you mean 'age'"):
        PartyFiles(**options, ignore=("agge",)).load()
    with pytest.raises(FedloomError, match="every row must have an id; 1 have none"):
        load(who=pl.Series([None, *frame["who"][1:]]))
    made = load(age=pl.Series([np.inf, *np.linspace(1, 2, len(rows) - 1)]))
    assert np.isfinite(made.features[1]).all() and made.features[1][:, 2].std() > 0.9


def test_whole_numbers_are_numbers_where_it_is_said(folder):
    file = folder / "parties" / "laboratory.csv"
    frame = pl.read_csv(file)
    frame.with_columns(ill=pl.Series(1000 + np.arange(frame.height))).write_csv(file)
    options = {"parties": "parties", "id": "who", "label": "ill", "join": "plain"}
    made = PartyFiles(**options, regression=True).load()
    assert made.labels is None and made.y.min() >= 1000


def test_whole_numbers_that_are_written_as_fractions_are_classes(folder):
    file = folder / "parties" / "laboratory.csv"
    frame = pl.read_csv(file)
    ill = frame["ill"] == "yes"
    frame.with_columns(ill=ill.cast(pl.Float64)).write_csv(file)
    options = {"parties": "parties", "id": "who", "label": "ill", "join": "plain"}
    made = PartyFiles(**options).load()
    assert made.labels.tolist() == [0, 1]
    assert PartyFiles(**options, regression=True).load().labels is None
    frame.with_columns(ill=ill * 1.5).write_csv(file)
    assert PartyFiles(**options).load().labels is None


@pytest.mark.parametrize("join", ["plain", "private"])
def test_ids_are_joined_as_they_are_written(folder, join):
    """CSV has no types: 007 is the number 7 to a reader, and in a Parquet file a text."""
    if join == "private":
        pytest.importorskip("private_set_intersection")
    numbers = [f"{place:03d}" for place in range(80)]
    for name in ("laboratory", "clinic"):
        file = folder / "parties" / f"{name}.csv"
        frame = pl.read_csv(file)
        who = [numbers[int(person[1:])] for person in frame["who"]]
        made = frame.with_columns(who=pl.Series(who))
        if name == "clinic":
            file.unlink()
            made.with_columns(pl.col("who") + " ").write_parquet(file.with_suffix(".parquet"))
        else:
            made.write_csv(file)
    options = {"parties": "parties", "id": "who", "label": "ill", "join": join}
    assert "70 people known to all" in PartyFiles(**options).load().alignment
