"""Networks from PyTorch in settings files, run folders, packed models and both engines.

No PyTorch is needed: the networks are files that `python -m tools.graphs` wrote.
"""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.cli.main import main
from fedloom.exchange.in_process import InProcess
from fedloom.federation.people.bringing import whole

GRAPHS = Path(__file__).parents[1] / "graphs"
SETTINGS = """
data = { name = "digits" }
partition = { scheme = "label", clients = 3, classes_each = 4 }
problem = { kind = "supervised", model = { kind = "graph", file = "net.safetensors" } }
algorithm = { key = "fedavg", lr = 0.1, local_steps = 2 }
run = { rounds = 4, batch_size = 8, eval_every = 2 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A settings file with a network beside it, and the run of it."""
    folder = tmp_path_factory.mktemp("graph")
    shutil.copy(GRAPHS / "digits_frozen.safetensors", folder / "net.safetensors")
    (folder / "settings.toml").write_text(SETTINGS)
    assert main(["run", str(folder / "settings.toml"), "--out", str(folder / "run")]) == 0
    return folder


def test_a_run_folder_names_the_network_with_its_checksum(folder):
    model = json.loads((folder / "run" / "settings.json").read_text())["problem"]["model"]
    network = fl.models.Graph(str(folder / "net.safetensors"))
    assert model == {
        "kind": "graph",
        "file": str(folder / "net.safetensors"),
        "sha256": network.sha256,
    }


def test_only_what_is_trained_is_sent(folder):
    result = fl.load(folder / "run")
    assert set(result.model) == {"4.weight", "4.bias"}
    numbers = 64 * 10 + 10
    assert result.final["bytes_up"] == 4 * 3 * 4 * numbers  # rounds, clients, bytes of a float


def test_a_run_goes_on_with_the_same_network_and_no_other(folder, tmp_path, capsys):
    whole = tmp_path / "whole"
    longer = ["--set", "run.rounds=6"]
    assert main(["run", str(folder / "settings.toml"), "--out", str(whole), *longer]) == 0
    shutil.copytree(folder / "run", tmp_path / "part")
    assert main(["run", "--resume", str(tmp_path / "part"), *longer]) == 0
    one, other = fl.load(whole).model, fl.load(tmp_path / "part").model
    assert all(np.array_equal(one[name], other[name]) for name in one)
    shutil.copy(GRAPHS / "digits.safetensors", folder / "net.safetensors")
    try:
        assert main(["run", "--resume", str(tmp_path / "part"), "--set", "run.rounds=8"]) == 2
        assert "is not the network that is meant" in capsys.readouterr().err
    finally:
        shutil.copy(GRAPHS / "digits_frozen.safetensors", folder / "net.safetensors")


def test_a_packed_model_predicts_without_the_file(folder, tmp_path):
    data = fl.data.load("digits")
    assert main(["export", str(folder / "run"), "--to", "safetensors"]) == 0
    packed = fl.load(folder / "run" / "exported.safetensors")
    network = fl.models.Graph(str(folder / "net.safetensors"))
    scores = network.apply(fl.load(folder / "run").model, data.x[:9].astype(np.float32))
    np.testing.assert_allclose(packed.predict(data.x[:9].astype(np.float32)), scores, atol=1e-5)
    assert main(["export", str(folder / "run"), "--to", "torch"]) == 0
    state = load_file(folder / "run" / "exported-torch.safetensors")
    assert set(state) == {"0.weight", "0.bias", "4.weight", "4.bias"}
    assert np.array_equal(state["0.weight"], network.held.frozen["0.weight"])


def test_a_fetched_folder_holds_the_network(folder, tmp_path):
    """It is used where the file of the settings is not, and only if it is the same."""
    out, network = tmp_path / "fetched", folder / "net.safetensors"
    result = fl.load(folder / "run")
    result.save(out)
    whole(result, SimpleNamespace(settings=result.about["settings"], text=""), out)
    (kept,) = out.glob("network-*.safetensors")
    away = network.rename(tmp_path / "away.safetensors")
    try:
        assert main(["export", str(out), "--to", "safetensors"]) == 0
        shutil.copy(GRAPHS / "digits.safetensors", kept)
        assert main(["export", str(out), "--to", "torch"]) == 2
    finally:
        away.rename(network)


def test_onnx_is_left_to_pytorch(folder, capsys):
    assert main(["export", str(folder / "run"), "--to", "onnx"]) == 2
    assert "torch.onnx.export" in capsys.readouterr().err


def test_a_report_is_made_and_the_network_is_listed(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(folder / "run"), "--out", str(page)]) == 0
    assert "net.safetensors" in page.read_text()
    assert main(["list", "models"]) == 0
    assert "graph" in capsys.readouterr().out


def test_a_missing_file_is_an_error_at_its_line(folder, tmp_path, capsys):
    (tmp_path / "settings.toml").write_text(SETTINGS)
    assert main(["run", str(tmp_path / "settings.toml")]) == 2
    said = capsys.readouterr().err
    assert "line 4" in said and "problem.model.file" in said and "there is no such file" in said


def test_what_is_in_the_file_is_no_parameter(tmp_path, capsys):
    (tmp_path / "settings.toml").write_text(SETTINGS.replace("file =", "contents ="))
    assert main(["run", str(tmp_path / "settings.toml")]) == 2
    assert (
        "is not a parameter of Graph. Use one of 'file', 'sha256', 'data'."
        in capsys.readouterr().err
    )


def test_both_engines_agree_bit_by_bit_in_bytes_and_closely_in_numbers(folder):
    network = fl.models.Graph(str(folder / "net.safetensors"))
    problem = fl.problems.Supervised(network)
    clients = fl.data.partition(fl.data.load("digits"), "label", clients=2, classes_each=5)
    method = fl.algorithms.Scaffold(lr=0.1, local_steps=2)
    result = fl.simulate(method, problem, clients, rounds=2, batch_size=8, seed=3)
    wire = InProcess(method, problem, clients, batch_size=8, seed=3)
    for _ in range(2):
        wire.step()
    expected = jax.tree.leaves(result.state.hub)
    for ours, theirs in zip(jax.tree.leaves(wire.hub), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert wire.bytes_up == result.final["bytes_up"]


def test_clients_may_have_networks_of_their_own_beside_a_common_one():
    common = fl.models.Graph(str(GRAPHS / "digits.safetensors"))
    own = (fl.models.Graph(str(GRAPHS / "digits_frozen.safetensors")), fl.models.MLP((8,)))
    problem = fl.problems.Personal(common, own)
    clients = fl.data.partition(fl.data.load("digits"), "label", clients=4, classes_each=4)
    method = fl.algorithms.QuPeD(lr=0.1)
    result = fl.simulate(method, problem, clients, rounds=2, batch_size=8)
    taken = fl.deploy.take(method, problem, clients, result, client=0)
    assert set(taken.arrays) == {"4.weight", "4.bias"}
    scores = taken.predict(clients.train.x[:3].astype(np.float32))
    assert scores.shape == (3, 10) and np.isfinite(scores).all()
