"""Comparing methods: fairness, tables, targets, pictures and the reproductions."""

import json
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.errors import ParameterError, SettingsError
from fedloom.experiments import settings
from fedloom.experiments.papers import available

SETTINGS = """
[data]
name = "synthetic"
alpha = 1.0
beta = 1.0
clients = 4
samples = 20
features = 3

[problem]
kind = "logistic"
l2 = 0.1
regulariser = { kind = "l1", strength = 0.01 }

[[algorithm]]
key = "decoupled_prox"
lr = 1.0

[[algorithm]]
name = "mirror"
key = "fedmid"
lr = 1.0

[run]
rounds = 40
batch_size = "full"
precision = "float64"
metrics = ["optimality", "loss"]

[compare]
seeds = 2
target = 1e-3
log = true
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "compare.toml"
    path.write_text(SETTINGS)
    return path


def test_compare_prints_a_row_for_each_method_and_draws(file, tmp_path, capsys):
    assert main(["compare", str(file), "--out", str(tmp_path / "o"), "--format", "json"]) == 0
    exact, mirror = json.loads(capsys.readouterr().out)
    assert exact["method"] == "decoupled_prox" and mirror["method"] == "mirror"
    assert exact["optimality"] < 1e-3 < mirror["optimality"]
    assert exact["reached"] == "2 of 2" and mirror["reached"] == "0 of 2"
    assert exact["rounds to target"] <= 40 and mirror["rounds to target"] is None
    assert (tmp_path / "o" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    kept = fl.load(tmp_path / "o" / "mirror" / "seed-1")
    assert kept.final["optimality"] == pytest.approx(mirror["optimality"])
    assert main(["compare", "--resume", str(tmp_path / "o")]) == 0
    assert "After 40 rounds, 2 seeds" in capsys.readouterr().out


def test_robust_methods_leave_pictures_of_fairness(tmp_path, capsys):
    path = tmp_path / "robust.toml"
    text = SETTINGS.replace('regulariser = { kind = "l1", strength = 0.01 }\n', "")
    text = text.replace("decoupled_prox", "afl").replace("lr = 1.0", "lr = 1.0\nweight_lr = 0.1", 1)
    text = text.replace("fedmid", "fedavg").replace('"optimality", ', "").replace("1e-3", "0.6")
    path.write_text(text + 'metric = "loss_worst"\n')
    assert main(["compare", str(path), "--out", str(tmp_path / "o")]) == 0
    assert "comparison.png, distribution.png, weights.png" in capsys.readouterr().out
    for name in ("distribution.png", "weights.png"):
        assert (tmp_path / "o" / name).read_bytes().startswith(b"\x89PNG")


def test_run_refuses_several_methods(file, capsys):
    assert main(["run", str(file)]) == 2
    assert "takes one method; got decoupled_prox, mirror" in capsys.readouterr().err


def test_two_methods_of_one_name_are_refused(tmp_path, capsys):
    path = tmp_path / "twice.toml"
    path.write_text(SETTINGS.replace('name = "mirror"', "").replace("fedmid", "decoupled_prox"))
    assert main(["compare", str(path)]) == 2
    assert "two methods named 'decoupled_prox'" in capsys.readouterr().err


def test_a_method_that_diverges_does_not_end_the_comparison():
    rng = np.random.default_rng(0)
    clients = fl.data.from_arrays([(rng.normal(size=(9, 3)), rng.normal(size=9))] * 2)
    methods = {"wild": fl.algorithms.FedAvg(lr=1e30), "tame": fl.algorithms.FedAvg(lr=0.1)}
    comparison = fl.compare(methods, fl.problems.LeastSquares(), clients, rounds=20, seeds=(0, 1))
    wild, tame = comparison.table()
    assert wild["method"] == "wild (2 of 2 diverged)"
    assert tame["rmse"] < 1


def test_every_method_sees_the_same_batches():
    """The first round of FedAvg and of FedProx without its pull are the same, seed by seed."""
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(9, 3)), rng.integers(0, 2, 9)) for _ in range(3)]
    methods = {"a": fl.algorithms.FedAvg(lr=0.1), "b": fl.algorithms.FedProx(lr=0.1, mu=0)}
    runs = fl.compare(
        methods, fl.problems.Logistic(), fl.data.from_arrays(parts), rounds=3, batch_size=2,
        seeds=(0, 1),
    ).results  # fmt: skip
    for one, other in zip(runs["a"], runs["b"], strict=True):
        np.testing.assert_allclose(one.model, other.model, rtol=1e-5)
    assert not np.allclose(runs["a"][0].model, runs["a"][1].model)


@pytest.mark.parametrize("name", available())
def test_the_settings_of_every_reproduction_are_valid(name):
    chosen = settings.read(available()[name])
    assert chosen.algorithms and chosen.run.rounds >= 10


def test_reproduce_shows_what_there_is_and_runs_it(tmp_path, capsys):
    assert main(["reproduce", "--list", "--format", "json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["composite-full-gradients"]["state"] == "run"
    assert listed["minimax-gisette"]["data"] == "gisette (LIBSVM)"
    assert listed["minimax-gisette"]["state"] == "not run"
    assert listed["minimax-gisette"]["time"] == "60 min, 2 cores"
    assert main(["reproduce"]) == 0
    ran, not_run = capsys.readouterr().out.split("Not run here: ")
    assert "Run here: " in ran and "composite-full-gradients" in ran
    assert "minimax-gisette" in not_run and "composite-full-gradients" not in not_run
    small = ["--set", "run.rounds=5", "--set", "data.samples=20", "--set", "data.clients=3"]
    raw = tmp_path / "raw.jsonl"
    arguments = ["reproduce", "composite-full-gradients", *small]
    assert main([*arguments, "--out", str(tmp_path / "run"), "--raw", str(raw)]) == 0
    printed = capsys.readouterr().out
    assert "fast_fedda" in printed and "Figure 1, left" in printed and "rounds to stay" in printed
    about, *runs = map(json.loads, raw.read_text().splitlines())
    assert "--set run.rounds=5" in about["command"] and len(runs) == 6
    assert runs[0]["columns"]["round"] == [0, 5]
    # What is there is not run again, and gives the same lines.
    again = tmp_path / "again.jsonl"
    assert main([*arguments, "--resume", str(tmp_path / "run"), "--raw", str(again)]) == 0
    assert again.read_text() == raw.read_text()
    # So it is with the settings that the folder has.
    assert main([*arguments[:2], "--resume", str(tmp_path / "run"), "--raw", str(again)]) == 0
    assert len(again.read_text().splitlines()) == 7 and '"round": [0, 5]' in again.read_text()
    for wrong, told in (
        (
            [*arguments, "--resume", str(tmp_path / "run"), "--out", str(tmp_path)],
            "Leave out --out",
        ),
        (["reproduce", "personal-digits", "--resume", str(tmp_path / "run")], "holds another"),
        (["reproduce", "--resume", str(tmp_path / "run")], "takes the name of an experiment"),
        ([*arguments, "--raw", str(tmp_path)], "is a folder, where a file"),
        (["reproduce", "composite"], "takes the name of an experiment"),
    ):
        assert main(wrong) == 2
        assert told in capsys.readouterr().err


def test_reproductions_travel_with_the_package():
    assert all(Path(path).is_relative_to(Path(fl.__file__).parent) for path in available().values())


def test_a_folder_of_runs_is_not_taken_for_that_of_other_rows_or_fewer_rounds(tmp_path):
    """One method's numbers of 9 rounds stood beside the other's of 5, or were of other rows."""
    iris = fl.data.load("iris")
    method = fl.algorithms.FedAvg(lr=0.1)

    def compared(division=0, **options):
        clients = fl.data.partition(iris, "iid", clients=3, test_fraction=0.2, seed=division)
        options = {"rounds": 9, "batch_size": 8, "out": tmp_path} | options
        return fl.compare({"a": method}, fl.problems.Multinomial(), clients, **options)

    compared()
    assert compared().results["a"][0].final["round"] == 9
    with pytest.raises(SettingsError, match=r"holds a run of 9 rounds; .* rounds = 5"):
        compared(rounds=5)
    with pytest.raises(SettingsError, match=r"a run with another division of rows \(labels"):
        compared(division=1)
    with pytest.raises(SettingsError, match="another batch_size: 8; these settings say 32"):
        clients = fl.data.partition(iris, "iid", clients=3, test_fraction=0.2)
        fl.compare({"a": method}, fl.problems.Multinomial(), clients, rounds=9, out=tmp_path)
    assert compared(rounds=12).results["a"][0].final["round"] == 12


def test_what_methods_are_called_leads_nowhere_else(tmp_path):
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=2, test_fraction=0.2)
    names = {
        "../out": "-..-out",
        "..": "-..",
        ".": "-.",
        ".rows": "-.rows",  # as a folder of fedloom's own is called
        "slurm": "-slurm",
        "": "-",
        "/tmp/a": "-tmp-a",
        "FedAvg 0.1": "FedAvg 0.1",
    }
    methods = {name: fl.algorithms.FedAvg(lr=0.1) for name in names}
    out = tmp_path / "deep" / "kept"
    fl.compare(methods, fl.problems.Multinomial(), clients, rounds=1, out=out)
    assert {path.name for path in out.iterdir()} == set(names.values())
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["kept"]


def test_methods_whose_folders_would_be_one_are_refused(tmp_path, capsys):
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=2)
    methods = {"a/b": fl.algorithms.FedAvg(lr=0.1), "a-b": fl.algorithms.FedAvg(lr=0.1)}
    said = "methods 'a/b' and 'a-b' would share the folder 'a-b', and each needs its own. Rename"
    with pytest.raises(ParameterError, match=said):
        fl.compare(methods, fl.problems.Multinomial(), clients, rounds=1, out=tmp_path / "o")
    fl.compare(methods, fl.problems.Multinomial(), clients, rounds=1)  # which keeps nothing
    text = SETTINGS.replace('name = "mirror"', 'name = "a/b"').replace(
        'key = "decoupled_prox"', 'key = "decoupled_prox"\nname = "a-b"'
    )
    (tmp_path / "s.toml").write_text(text)
    assert main(["compare", str(tmp_path / "s.toml"), "--out", str(tmp_path / "o")]) == 2
    assert "would share the folder 'a-b'" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "o").exists()
