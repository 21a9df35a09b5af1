"""New people of a vertical model: from the raw tables of all parties to predictions."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.deploy import by_party
from fedloom.deploy.shares import shares_of
from fedloom.errors import FedloomError
from fedloom.preparation import PartyFiles
from fedloom.preparation.of_party import PartyPreparation
from preparation.people import (
    LABELS,
    OPTIONS,
    SETTINGS,
    by_hand,
    joined,
    new_tables,
    pooled,
    read,
    said_by_hand,
    tables,
    write,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("loss,rounds", [("logistic", 400), ("softmax", 800), ("squared", 400)])
def test_raw_tables_of_new_people_get_what_a_pooled_model_says(loss, rounds, folder, capsys):
    write(LABELS[loss])
    (folder / "v.toml").write_text(SETTINGS.format(loss=loss, rounds=rounds))
    assert main(["run", "v.toml", "--out", "rv"]) == 0
    train, new = joined(*tables(300, 4, LABELS[loss])), joined(*new_tables(LABELS[loss]))
    x = by_hand(train, train)
    weights = pooled(loss, x, train["ill"].to_numpy())
    new = new.filter(pl.col("admitted").is_not_null())
    expected = said_by_hand(loss, by_hand(train, new) @ weights, train["ill"].to_numpy())

    problem = fl.problems.Vertical(loss=loss, l2=1.0)
    fl.save_shares(fl.load("rv"), "shares")
    files = {"clinic": "new/clinic.csv", "laboratory": "new/laboratory.csv"}
    with pytest.warns(UserWarning) as remarks:
        said = fl.joint_predict(problem, files, "shares")
    told = " ".join(str(remark.message) for remark in remarks)
    assert "32 people known to all; dropped: 5 rows of laboratory, 3 rows of clinic" in told
    assert "clinic: column 'ward': " in told and "violet" not in told
    assert said["who"].to_list() == new["who"].to_list()
    for name, values in expected.items():
        np.testing.assert_allclose(said[name], values, rtol=0, atol=1e-6)
    if loss != "squared":
        names = np.unique(train["ill"].to_numpy())
        best = np.argmax(np.stack([*expected.values()], axis=1), axis=1)
        assert said["prediction"].to_list() == names[best].tolist()

    frames = {name: read(file) for name, file in files.items()}
    with pytest.warns(UserWarning):
        assert fl.joint_predict(problem, frames, "shares").equals(said)
    with pytest.warns(UserWarning):
        assert fl.predict("rv", files, keep=["who"]).equals(said)
    capsys.readouterr()
    assert main(["predict", "rv", "new/*.csv", "--out", "said.csv"]) == 0
    assert "note: 32 people known to all" in capsys.readouterr().err
    assert read("said.csv").equals(said)


def simulated(**options):
    """A result of plain Python, on numbers as they are where `options` say so."""
    parties = PartyFiles(**OPTIONS | options).load()
    problem = fl.problems.Vertical(loss="logistic", l2=1.0)
    method = fl.algorithms.VerticalAGD()
    given = {"rounds": 200, "eval_every": 200, "precision": "float64"}
    return fl.simulate(method, problem, parties, **given), problem, parties


@pytest.mark.parametrize("standardise", [True, False])
def test_rows_of_training_are_encoded_again_as_they_were(standardise, folder):
    write(LABELS["logistic"])
    result, problem, parties = simulated(standardise=standardise)
    fl.save_shares(result, "shares")
    files = {name: f"parties/{name}.csv" for name in parties.names}
    features = dict(zip(parties.names, parties.features, strict=True))
    scores = fl.joint_predict(problem, features, "shares")
    said = fl.joint_predict(problem, files, "shares")
    np.testing.assert_allclose(said["probability of yes"], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    train = joined(*tables(300, 4, LABELS["logistic"]))
    hand = by_hand(train, train, standardise)
    ours = np.concatenate(parties.features, axis=1)
    apart = np.abs(hand[:, :, None] - ours[:, None, :]).max(0)  # of each column to each
    assert hand.shape == ours.shape and (apart.min(0) < 1e-9).all() and (apart.min(1) < 1e-9).all()


def test_a_share_has_the_preparation_of_its_own_party_alone(folder):
    write(LABELS["logistic"])
    result, _, _ = simulated()
    result.save("run")
    fl.save_shares(fl.load("run"), "shares")
    inside = {path.parent.name: path.read_bytes() for path in folder.glob("shares/*/*")}
    assert set(inside) == {"laboratory", "clinic", "label party"}
    words = {"laboratory": [b"marker"], "clinic": [b"ward", b"green", b"age", b"admitted"]}
    words["label party"] = [rb"[\"no\", \"yes\"]"]
    for name, data in inside.items():
        for owner, own in words.items():
            assert all((word in data) == (name == owner) for word in own), (name, owner)
    assert all(path.stat().st_mode & 0o77 == 0 for path in folder.glob("shares/*/*"))


def test_shares_without_a_preparation_take_features_and_say_what_tables_need(folder):
    write(LABELS["logistic"])
    result, problem, parties = simulated()
    files = {name: f"parties/{name}.csv" for name in ("laboratory", "clinic")}
    features = dict(zip(parties.names, parties.features, strict=True))
    fl.save_shares(result, "new-shares")
    whole = fl.joint_predict(problem, features, "new-shares")
    with pytest.raises(FedloomError, match="got tables for laboratory alone"):
        fl.joint_predict(problem, features | {"laboratory": files["laboratory"]}, "new-shares")
    with pytest.raises(FedloomError, match="the table of clinic: every party's table must"):
        bare = {name: read(file).drop("who") for name, file in files.items()}
        fl.joint_predict(problem, {**files, "clinic": bare["clinic"]}, "new-shares")
    Path("new-shares/label party/share.safetensors").unlink()
    np.testing.assert_array_equal(fl.joint_predict(problem, features, "new-shares"), whole)
    with pytest.raises(FedloomError, match="the classes are called; there is none"):
        fl.joint_predict(problem, files, "new-shares")
    result.about.pop("parties")  # as an older fedloom left it
    fl.save_shares(result, "old-shares")
    np.testing.assert_array_equal(fl.joint_predict(problem, features, "old-shares"), whole)
    with pytest.raises(FedloomError, match="'laboratory' in old-shares does not say how a table"):
        fl.joint_predict(problem, files, "old-shares")
    with pytest.raises(FedloomError, match="its run was on arrays, or with an older fedloom"):
        fl.predict(result, files, problem=problem)


def test_networks_of_the_parties_and_one_over_them_predict_from_tables(folder):
    write(LABELS["softmax"])
    small = fl.models.MLP(hidden=(4,))
    options = {"loss": "softmax", "mean": True, "network": small, "embedding": 2, "fusion": small}
    problem, parties = fl.problems.Vertical(**options), PartyFiles(**OPTIONS).load()
    method = fl.algorithms.SplitTraining(lr=0.1)
    result = fl.simulate(method, problem, parties, rounds=3, batch_size=16)
    result.save("run")
    fl.save_shares(fl.load("run"), "shares")
    files = {name: f"parties/{name}.csv" for name in parties.names}
    said = fl.joint_predict(problem, files, "shares")
    features = dict(zip(parties.names, parties.features, strict=True))
    scores = fl.joint_predict(problem, features, "shares")
    expected = said_by_hand("softmax", scores, tables(300, 4, LABELS["softmax"])[0]["ill"])
    for name, values in expected.items():
        np.testing.assert_allclose(said[name], values, rtol=1e-12)
    assert fl.predict("run", files, problem=problem).equals(said)
    with pytest.raises(FedloomError, match=r"through networks, MLP.* no coefficients of columns"):
        by_party.coefficients(problem, shares_of(result))


def test_the_label_party_of_another_run_is_noticed(folder):
    write(LABELS["logistic"])
    result, problem, _ = simulated()
    result.about["parties"]["classes"] = ["low", "middle", "high"]
    files = {name: f"parties/{name}.csv" for name in ("laboratory", "clinic")}
    with pytest.raises(FedloomError, match="names 3 classes, and the model tells 2 apart"):
        fl.predict(result, files, problem=problem)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_coefficients_by_party_give_the_scores_of_columns_as_they_are(loss, folder, capsys):
    write(LABELS[loss])
    (folder / "v.toml").write_text(SETTINGS.format(loss=loss, rounds=50))
    assert main(["run", "v.toml", "--out", "rv"]) == 0
    assert main(["coefficients", "rv", "--out", "c.csv"]) == 0
    table = pl.read_csv("c.csv")
    assert table.columns[:2] == ["party", "feature"]
    mine = table.filter(pl.col("party") == "clinic")["feature"].to_list()
    assert {"age", "ward=red", "admitted year", "admitted month=3"} <= set(mine)
    assert ("odds ratio per unit" in table.columns) == (loss != "squared")
    problem = fl.problems.Vertical(loss=loss, l2=1.0)
    whole = joined(*tables(300, 4, LABELS[loss])).drop_nulls()
    laboratory, clinic = whole.select("who", "marker"), whole.drop("marker", "ill")
    said = fl.predict("rv", {"laboratory": laboratory, "clinic": clinic})
    months = whole["admitted"].str.slice(5, 2).str.strip_chars_start("0")
    values = {"marker": whole["marker"], "age": whole["age"]}
    values["admitted year"] = whole["admitted"].str.slice(0, 4).cast(pl.Float64)
    values |= {f"ward={word}": whole["ward"] == word for word in ("blue", "green", "red")}
    values |= {f"admitted month={month}": months == str(month) for month in range(1, 5)}
    values["(intercept)"] = pl.Series([1.0] * len(whole))
    one = table.filter(pl.col("class") == "middle") if loss == "softmax" else table
    terms = [values[row["feature"]].cast(pl.Float64) * row["per unit"] for row in one.to_dicts()]
    total = sum(term.to_numpy() for term in terms)
    if loss == "squared":
        scores = said["prediction"].to_numpy()
    else:
        first, second = ("high", "middle") if loss == "softmax" else ("no", "yes")
        odds = said[f"probability of {second}"] / said[f"probability of {first}"]
        scores = np.log(odds.to_numpy())
    np.testing.assert_allclose(total, scores, atol=1e-6)
    assert problem.link and main(["coefficients", "rv"]) == 0
    assert "clinic" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments,complaint",
    [
        (["predict", "rv", "new/clinic.csv"], "needs a table of each of its parties, laboratory,"),
        (["predict", "rv", "nothing/*.csv"], "predict: DATA: there is no CSV or Parquet file"),
        (["predict", "rv", "new", "--site", "clinic"], "parties have one model together"),
        (["predict", "rv", "new", "--keep", "age"], "keep may name the id alone"),
        (["coefficients", "rv", "--local"], "no party alone has the columns and labels"),
        (["export", "rv", "--to", "onnx", "--out", "m.onnx"], "consists of a share for each party"),
    ],
)
def test_what_a_vertical_run_cannot_do_is_said(arguments, complaint, folder, capsys):
    write(LABELS["logistic"])
    (folder / "v.toml").write_text(SETTINGS.format(loss="logistic", rounds=2))
    assert main(["run", "v.toml", "--out", "rv"]) == 0
    assert main(arguments) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_no_party_has_the_name_under_which_labels_lie(folder):
    write(LABELS["logistic"])
    Path("parties/clinic.csv").rename("parties/label party.csv")
    with pytest.raises(FedloomError, match="no party with features may be called 'label party'"):
        PartyFiles(**OPTIONS).load()


def test_junk_in_the_preparation_of_a_party_is_refused(folder):
    write(LABELS["logistic"])
    _, _, parties = simulated()
    sound = parties.preparations["clinic"].as_dict()
    read_back = PartyPreparation.from_dict(json.loads(json.dumps(sound)))
    assert read_back == parties.preparations["clinic"]
    for name in sound:
        for junk in (None, 3, float("nan"), [], [[1]], {"a": 1}, {1: 2}, "x" * 100):
            if {name: junk} in ({"encoding": None}, {"encoding": "x" * 100}, {"id": "x" * 100}):
                continue
            with pytest.raises(FedloomError, match="the preparation"):
                PartyPreparation.from_dict(sound | {name: junk})


@pytest.mark.parametrize(
    "arguments,complaint",
    [
        (["coefficients", "rv"], "rv does not say what the columns of its parties are called"),
        (["coefficients", "rv", "--site", "party 0"], "whose parties have one model together"),
        (["predict", "rv", "new"], "its run was on arrays, or with an older fedloom. Use"),
        (["export", "rv", "--to", "onnx", "--out", "m.onnx"], "consists of a share for each party"),
    ],
)
def test_a_vertical_run_without_tables_is_known_as_one(arguments, complaint, folder, capsys):
    settings = """
    data = { name = "diabetes" }
    partition = { scheme = "features", parties = 2 }
    problem = { kind = "vertical", loss = "squared", l2 = 1.0 }
    algorithm = { key = "vertical_gd" }
    run = { rounds = 1 }
    """
    (folder / "v.toml").write_text(settings)
    assert main(["run", "v.toml", "--out", "rv"]) == 0
    assert main(arguments) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
