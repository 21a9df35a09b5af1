"""Models that learned from normalised rows: what they say of rows as they were."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors import safe_open

import fedloom as fl
from fedloom.cli.main import main
from fedloom.deploy import coefficients, hub_model, take
from fedloom.errors import ParameterError
from fedloom.experiments.explaining import coefficients_of

SETTINGS = """
[data]
path = "all.csv"
label = "sick"

[partition]
scheme = "iid"
clients = 3
normalise = true

[problem]
kind = "logistic"
intercept = true
l2 = 0.01

[algorithm]
key = "fedavg"
lr = 0.5

[run]
rounds = 5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    age, dose = rng.normal(50, 12, 90), rng.normal(3, 0.1, 90)
    table = np.stack([age, dose, age + 100 * dose > 350], 1)
    head = "age,dose,sick"
    np.savetxt(tmp_path / "all.csv", table, "%.17g", delimiter=",", header=head, comments="")
    (tmp_path / "s.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "s.toml", "--out", "kept"]) == 0
    return tmp_path


def columns(folder):
    return np.loadtxt(folder / "all.csv", delimiter=",", skiprows=1)[:, :2]


def assert_per_unit(table, model, x):
    """That coefficients per unit and columns as they are give the scores."""
    slopes = table["per unit"].to_numpy()
    said = model.predict(x, normalised=False)[:, 0]
    np.testing.assert_allclose(x @ slopes[:-1] + slopes[-1], said, rtol=1e-4, atol=1e-4)
    assert np.abs(said).max() < 20


def test_coefficients_per_unit_are_of_the_columns_as_they_were(folder, capsys):
    x = columns(folder)
    assert main(["export", "kept", "--to", "safetensors", "--out", "m.safetensors"]) == 0
    assert "normalise rows first: subtract the mean, divide" in capsys.readouterr().out
    model = fl.load("m.safetensors")
    np.testing.assert_allclose(model.normalisation.mean, x.mean(0))
    for table in (coefficients_of("kept"), coefficients_of("m.safetensors")):
        assert_per_unit(table, model, x)
    local = coefficients_of("kept", local=True)
    assert_per_unit(local, model, x)
    assert main(["coefficients", "kept", "--site", "client 0", "--out", "0.csv"]) == 0


def test_the_hubs_model_is_taken_without_the_data_and_from_older_folders_with_them(folder):
    whole = coefficients_of("kept")
    result = fl.load("kept")
    older = dict(result.about)
    del older["kind of rows"]
    result = dataclasses.replace(result, about=older)
    assert coefficients_of(result).equals(whole)
    (folder / "all.csv").unlink()
    assert coefficients_of("kept").equals(whole)


def test_predict_must_be_told_whether_rows_are_normalised():
    rng = np.random.default_rng(1)
    images = rng.normal([5, -3, 100], [1, 2, 30], (40, 4, 4, 3)).astype(np.float32)
    data = fl.data.Dataset("images", images, np.arange(40) % 2, np.arange(2))
    clients = fl.data.partition(data, "iid", clients=2, normalise=True)
    problem, method = fl.problems.Logistic(intercept=True), fl.algorithms.FedAvg(lr=0.1)
    result = fl.simulate(method, problem, clients, rounds=3)
    model = take(method, problem, clients, result, client=1)
    with pytest.raises(ParameterError, match="normalised=False for rows as they were"):
        model.predict(images)
    once = model.predict(clients.train.x, normalised=True)
    again = model.predict(clients.normalisation.of(images), normalised=True)
    np.testing.assert_allclose(model.predict(images, normalised=False), again, atol=1e-5)
    assert sorted(once[:, 0]) == pytest.approx(sorted(again[:, 0]), abs=1e-5)
    flat = images.reshape(40, -1)
    slopes = coefficients(model)["per unit"].to_numpy()
    np.testing.assert_allclose(flat @ slopes[:-1] + slopes[-1], again[:, 0], atol=1e-3)
    plain = hub_model(problem, result.model, (4, 4, 3), ["a", "b"])
    np.testing.assert_array_equal(plain.predict(images), model.predict(images, normalised=True))


def test_exports_say_how_rows_were_normalised(tmp_path):
    x = np.random.default_rng(2).normal(7, 2, (20, 3))
    data = fl.data.Dataset("flat", x, np.arange(20) % 2, np.arange(2))
    clients = fl.data.partition(data, "iid", clients=2, normalise=True)
    problem, method = fl.problems.Logistic(), fl.algorithms.FedAvg(lr=0.1)
    model = take(method, problem, clients, fl.simulate(method, problem, clients, rounds=1))
    model.export_torch(tmp_path / "torch.safetensors")
    with safe_open(tmp_path / "torch.safetensors", "np") as file:
        told = json.loads(file.metadata()["fedloom"])["normalisation"]
    np.testing.assert_array_equal(told["mean"], clients.normalisation.mean)
    np.testing.assert_array_equal(told["deviation"], clients.normalisation.deviation)
