"""The four hospitals that come with fedloom, held against what is published of them."""

import hashlib
import importlib.resources

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from data.messages import raises
from fedloom.errors import ParameterError

HOSPITALS = ("cleveland", "hungary", "switzerland", "va")


def test_counts_are_those_of_the_source():
    tables = fl.data.heart_tables()
    assert tuple(tables) == HOSPITALS
    assert [t.height for t in tables.values()] == [303, 294, 123, 200]
    ill = [int((t["disease"] == "yes").sum()) for t in tables.values()]
    assert ill == [139, 106, 115, 149]
    whole = pl.concat(tables.values())
    # Number, mean and deviation over all four files, as their copies on other sites state them.
    for name, there, mean, deviation in (
        ("age", 920, 53.510870, 9.424685),
        ("trestbps", 861, 132.132404, 19.066070),
        ("chol", 890, 199.130337, 110.780810),
        ("thalach", 865, 137.545665, 25.926276),
        ("oldpeak", 858, 0.878788, 1.091226),
        ("ca", 309, 0.676375, 0.935653),
    ):
        values = whole[name].drop_nulls()
        assert len(values) == there
        assert values.mean() == pytest.approx(mean, abs=1e-6)
        assert values.std() == pytest.approx(deviation, abs=1e-6)
    for name, counts in (
        ("cp", [46, 174, 204, 496]),
        ("restecg", [2, 179, 188, 551]),
        ("slope", [63, 203, 309, 345]),
        ("thal", [46, 192, 196, 486]),
    ):
        assert sorted(whole[name].value_counts()["count"].to_list()) == counts


def test_the_file_is_the_one_that_was_verified_and_names_its_authors():
    folder = importlib.resources.files("fedloom.data") / "embedded"
    digest = hashlib.sha256((folder / "heart.csv").read_bytes()).hexdigest()
    assert digest == "eeabfd0feae146f6fa2a6fa0484704642c915a51cb141d8a4fcbf0683e5e9d29"
    notice = (folder / "heart.txt").read_text()
    for said in ("Janosi", "Steinbrunn", "Pfisterer", "Detrano", "CC BY 4.0", "10.24432/C52P4X"):
        assert said in notice


def test_a_hospital_is_a_client():
    found = fl.data.load("heart")
    assert found.x.shape == (740, 15) and found.labels.tolist() == ["no", "yes"]
    np.testing.assert_allclose(found.x[:, 0].std(), 1)
    clients = fl.data.partition(found, "client", test_fraction=0.25)
    assert clients.names == HOSPITALS
    assert (clients.sizes + clients.test_sizes).tolist() == [303, 261, 46, 130]
    filled = fl.data.load("heart", missing="fill")
    assert len(filled) == 920 and {"thal is missing", "ca"} <= set(filled.features)
    with raises(ParameterError, "missing must be one of", "'guess'"):
        fl.data.load("heart", missing="guess")


def test_hospitals_learn_from_each_other():
    clients = fl.preparation.from_frames(fl.data.heart_tables(), "disease", test_fraction=0.25)
    assert not clients.left_out  # no measurement is taken for a key
    result = fl.simulate(
        fl.algorithms.Scaffold(lr=0.1),
        fl.problems.Logistic(intercept=True, weights="size", l2=1e-3),
        clients,
        rounds=40,
        eval_every=40,
    )
    assert result.final["accuracy"] > 0.75
