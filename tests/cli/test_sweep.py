"""`fedloom sweep`: what is tried, how it is judged, and that test rows stay unseen."""

import dataclasses
import functools
import json
import re
import types

import numpy as np
import pytest

import fedloom as fl
from fedloom.checksums import read_json, write_json
from fedloom.cli.main import main
from fedloom.errors import ParameterError
from fedloom.experiments import best_settings, searching, settings
from fedloom.experiments.sweeping import Sweep
from fedloom.experiments.trials import Trial
from fedloom.reports.reading import read
from fedloom.reports.sections import sections

SETTINGS = """
[data]
name = "iris"
[partition]
scheme = "iid"
clients = 3
test_fraction = 0.2
[problem]
kind = "multinomial"
[[algorithm]]
key = "fedavg"
lr = 0.1
[[algorithm]]
key = "scaffold"
lr = 0.1
[run]
rounds = 8
batch_size = 8
[compare]
seeds = 2
[sweep]
metric = "loss"
[sweep.over]
lr = { from = 1e-4, to = 1.0, count = 3 }
"scaffold.option" = ["I", "II"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SETTINGS)
    return path


def test_sweep_finds_the_best_of_each_method_and_resumes(file, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["sweep", str(file), "--out", str(out), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    tried = {(row["method"], row["lr"], row.get("scaffold.option")) for row in found["trials"]}
    assert len(tried) == len(found["trials"]) == 3 + 3 * 2
    for method in ("fedavg", "scaffold"):
        own = [row for row in found["trials"] if row["method"] == method]
        best = min(own, key=lambda row: row["loss"])
        chosen = next(row for row in found["best"] if row["method"] == method)
        assert chosen["lr"] == best["lr"] > 1e-4
        kept = fl.load(out / "best" / method / "seed-1")
        assert f"lr={best['lr']}" in kept.about["algorithm"]
    assert json.loads((out / "best.json").read_text())["fedavg"]["lr"] > 1e-4
    # What is known is not run again: a score put into the file decides.
    trials = read_json(out / "trials.json")
    assert len(trials) == 2 * len(tried)
    changed = {key: -1.0 if '"lr": 0.0001' in key else v for key, v in trials.items()}
    write_json(out / "trials.json", changed)
    (out / "best").rename(tmp_path / "earlier")
    assert main(["sweep", "--resume", str(out), "--format", "json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert [row["lr"] for row in best] == [1e-4, 1e-4]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A sweep of two methods, judged by what [compare] compares."""
    root = tmp_path_factory.mktemp("searched")
    text = SETTINGS.replace("[sweep]\nmetric", "metrics = ['accuracy_worst']\nmetric")
    (root / "s.toml").write_text(text.replace("seeds = 2", "seeds = 1"))
    assert main(["sweep", str(root / "s.toml"), "--out", str(root / "o")]) == 0
    return root


def test_a_sweep_tunes_what_the_comparison_compares(searched, capsys):
    found = read_json(searched / "o" / "sweep.json")
    assert found["metric"] == "loss" and not found["larger_is_better"]
    assert found["over"] == ["lr", "scaffold.option"] and len(found["trials"]) == 9
    assert main(["sweep", "--resume", str(searched / "o"), "--format", "markdown"]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    figures = ["Loss, mean over clients", "Accuracy, worst client"]
    assert head.strip("| ").split(" | ") == ["method", "lr", "scaffold.option", *figures]
    judged = "sweep.metric='accuracy'"
    out = ["--out", str(searched / "other"), "--set", judged, "--set", "run.rounds=1"]
    assert main(["sweep", str(searched / "s.toml"), *out, "--format", "json"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert all("accuracy" in row for row in other["trials"])
    assert all("loss" in row and "accuracy" not in row for row in other["best"])


def test_a_sweep_leaves_the_best_as_settings_that_run(searched, tmp_path, capsys):
    best = searched / "o" / "best.toml"
    assert main(["compare", str(best), "--out", str(tmp_path / "again"), "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for row in again:
        kept = fl.load(searched / "o" / "best" / row["method"] / "seed-0")
        assert row["loss"] == kept.final["loss"]
    assert (searched / "o" / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_method_of_which_no_setting_has_the_metric_is_pointed_out():
    rows = [{"method": "a", "lr": lr, "loss": float("nan")} for lr in (10.0, 100.0)]
    trial = types.SimpleNamespace(setting={"lr": 10.0})
    (remark,) = Sweep(rows, {"a": trial}, "loss", False).remarks()
    assert remark.startswith("a: no setting has the metric loss on held-out rows")


def test_a_best_value_at_the_edge_of_its_range_is_pointed_out():
    rows = [{"method": "a", "lr": lr, "loss": lr} for lr in (0.1, 1.0, 10.0)]
    trial = types.SimpleNamespace(setting={"lr": 0.1})
    (remark,) = Sweep(rows, {"a": trial}, "loss", False).remarks()
    assert remark.startswith("a: the best lr, 0.1, is the smallest that was tried")
    assert not Sweep(
        rows, {"a": types.SimpleNamespace(setting={"lr": 1.0})}, "loss", False
    ).remarks()


def test_a_report_shows_what_was_tried(searched):
    assert main(["report", str(searched / "o")]) == 0
    page = (searched / "o" / "report.html").read_text()
    (study,) = read([searched / "o"])
    (made,) = [data for section, data in sections(study) if section.kind == "trials"]
    assert made["fields"] == ["lr", "scaffold.option"] and len(made["rows"]) == 9
    assert [len(method["trials"]) for method in made["methods"]] == [3, 6]
    assert made["methods"][0]["trials"][0]["at"]["lr"] in (1e-4, 0.01, 1.0)
    assert "Table of the trials" in page and '<th scope="col">scaffold.option</th>' in page
    json.dumps(made, allow_nan=False)


def test_the_best_of_each_problem_are_files_of_their_own(tmp_path):
    text = SETTINGS.partition("[sweep]")[0] + "[[wrapper]]\nkind = 'unreliable'\ndrop = 0.1\n"
    chosen = tmp_path / "s.toml"
    chosen.write_text(text + "[sweep.over]\nlr = [0.1]\n")
    setup = settings.read(chosen)
    trials = {
        name: Trial(name, {}, method, fl.problems.Multinomial(l2=l2))
        for (name, method), l2 in zip(setup.algorithms.items(), (0.0, 0.1), strict=True)
    }
    texts = best_settings.files(setup, Sweep([], trials, "loss", False))
    assert list(texts) == ["best-fedavg.toml", "best-scaffold.toml"]
    for text, (name, trial) in zip(texts.values(), trials.items(), strict=True):
        (tmp_path / "best.toml").write_text(text)
        again = settings.read(tmp_path / "best.toml")
        assert again.algorithms == {name: trial.algorithm} and again.problem == trial.problem


def test_test_rows_are_not_looked_at():
    dataset = fl.data.load("iris")
    clients = fl.data.partition(dataset, "iid", clients=3, test_fraction=0.2)
    clients.test.x[:] = float("nan")
    found = fl.sweep(
        {"fedavg": fl.algorithms.FedAvg(lr=1.0)},
        fl.problems.Multinomial(),
        clients,
        over={"lr": [1e-4, 0.1]},
        metric="loss",
        rounds=5,
    )
    assert found.best["fedavg"].setting == {"lr": 0.1}
    assert all(row["loss"] < 2 for row in found.rows)


def test_halving_stops_the_worse_half_early():
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3)
    found = fl.sweep(
        {"fedavg": fl.algorithms.FedAvg(lr=1.0)},
        fl.problems.Multinomial(),
        clients,
        over={"lr": [1e-4, 1e-3, 1e-2, 0.1]},
        metric="loss",
        halving=True,
        rounds=12,
    )
    assert [row["rounds"] for row in found.rows] == [3, 3, 6, 12]
    assert found.best["fedavg"].setting == {"lr": 0.1}
    whole = fl.sweep(
        {"fedavg": fl.algorithms.FedAvg(lr=1.0)},
        fl.problems.Multinomial(),
        clients,
        over={"lr": [0.1]},
        metric="loss",
        rounds=12,
    )
    assert whole.rows[0]["loss"] == found.rows[3]["loss"]  # stopped and resumed, the same bits


@pytest.mark.parametrize("search", [fl.compare, fl.sweep])
def test_a_metric_that_is_not_measured_is_refused_before_anything_runs(search):
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3)
    methods, options = {"f": fl.algorithms.FedAvg(lr=1.0)}, {"rounds": 10**9}
    options |= {"over": {"lr": [0.1]}} if search is fl.sweep else {}
    with pytest.raises(ParameterError, match=r"got 'acuracy'\. Did you mean 'accuracy'"):
        search(methods, fl.problems.Multinomial(), clients, metric="acuracy", **options)


def test_random_search_is_seeded_and_stays_within_its_ranges():
    over = {"lr": {"from": 1e-3, "to": 1.0}, "local_steps": [1, 5]}
    drawn = searching.random(over, 50, seed=3)
    assert drawn == searching.random(over, 50, seed=3) != searching.random(over, 50, seed=4)
    assert all(1e-3 <= s["lr"] <= 1 and s["local_steps"] in (1, 5) for s in drawn)
    assert sum(s["lr"] < 10**-1.5 for s in drawn) in range(15, 36)  # even on a logarithmic scale


def test_what_is_said_of_a_method_by_its_name_takes_the_place_of_what_is_said_of_all():
    problem, over = fl.problems.Logistic(), {"lr": [0.1], "local_steps": [5], "b.lr": [1.0, 2.0]}
    method = fl.algorithms.FedAvg(lr=0.5)
    assert searching.concerning(over, "a", method, problem) == {"lr": [0.1], "local_steps": [5]}
    own = searching.concerning(over, "b", method, problem)
    assert own == {"local_steps": [5], "b.lr": [1.0, 2.0]}
    assert searching.apply({"b.lr": 2.0}, "b", method, problem)[0].lr == 2.0


def test_a_key_may_lead_into_a_part_of_the_method_or_of_the_problem():
    ffmdr = fl.algorithms.FFMDR(beta=1.0, solver=fl.algorithms.SGDA(lr=0.1, epochs=2))
    problem = fl.problems.AUC(regulariser=fl.problems.L1(0.5))
    setting = {"beta": 5.0, "ffmdr.solver.lr": 0.01, "problem.regulariser.strength": 0.1}
    over = {key: [value] for key, value in setting.items()}
    assert searching.concerning(over, "ffmdr", ffmdr, problem) == over
    method, posed = searching.apply(setting, "ffmdr", ffmdr, problem)
    assert method == fl.algorithms.FFMDR(beta=5.0, solver=fl.algorithms.SGDA(lr=0.01, epochs=2))
    assert posed == fl.problems.AUC(regulariser=fl.problems.L1(0.1))
    # A solver without that field, and a method without a solver, are not concerned.
    exact = fl.algorithms.FFMDR(beta=1.0, solver=fl.algorithms.Exact())
    plain = fl.algorithms.LocalSGDA(lr=0.1, dual_lr=0.1)
    for other in (exact, plain):
        assert searching.concerning({"solver.lr": [0.1]}, "m", other, problem) == {}


@pytest.mark.parametrize(
    "over,complaint",
    [
        ({}, "must name at least one field"),
        ({"lrr": [0.1]}, "Did you mean 'lr'"),
        ({"problem.l3": [0.1]}, "Did you mean 'problem.l2'"),
        ({"lr": 0.1}, "must be a list of values"),
        ({"lr": []}, "must be a list of values"),
        ({"lr": {"from": 0.1}}, "must have from and to"),
        ({"lr": {"from": -1, "to": 1}}, r"lr.from must be a number > 0; got -1"),
    ],
)
def test_a_wrong_search_gets_a_clear_error(over, complaint):
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3)
    with pytest.raises(ParameterError, match=complaint):
        fl.sweep({"f": fl.algorithms.FedAvg(lr=1.0)}, fl.problems.Multinomial(), clients, over=over)


def test_optuna_proposes_by_what_was_judged_and_the_same_again(tmp_path):
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3, test_fraction=0.2)
    ran = []

    def searched():
        ran.clear()
        return fl.sweep(
            {"fedavg": fl.algorithms.FedAvg(lr=0.1)},
            fl.problems.Multinomial(),
            clients,
            over={"lr": {"from": 1e-4, "to": 1.0}, "server_lr": [0.5, 1.0]},
            search="optuna",
            trials=14,
            metric="loss",
            rounds=4,
            batch_size=8,
            out=tmp_path,
            tried=lambda label, seed, value: ran.append(label),
        )

    first = searched()
    assert len(first.rows) == len(ran) == 14
    assert all(1e-4 <= row["lr"] <= 1 and row["server_lr"] in (0.5, 1.0) for row in first.rows)
    assert all(re.fullmatch(r"fedavg, lr \S+, server_lr (0\.5|1)", label) for label in ran)
    assert first.best["fedavg"].setting["lr"] == min(first.rows, key=lambda r: r["loss"])["lr"]
    known = read_json(tmp_path / "trials.json")
    some = dict(list(known.items())[:12])
    write_json(tmp_path / "trials.json", some)
    assert searched().rows == first.rows and len(ran) == 2  # killed, and gone on with
    write_json(tmp_path / "trials.json", {key: -value for key, value in some.items()})
    other = searched()
    assert [r["lr"] for r in other.rows[:12]] == [r["lr"] for r in first.rows[:12]]
    assert [r["lr"] for r in other.rows[12:]] != [r["lr"] for r in first.rows[12:]]


def test_a_search_that_cannot_be_is_refused(file, tmp_path, capsys, monkeypatch):
    command = ["sweep", str(file), "--out", str(tmp_path / "o"), "--sampler", "optuna"]
    assert main([*command, "--trials", "0"]) == 2
    assert "trials" in capsys.readouterr().err
    assert main([*command, "--set", "sweep.halving=true"]) == 2
    assert "halving needs all settings from the beginning" in capsys.readouterr().err
    assert main([*command[:-1], "grid", "--trials", "6"]) == 2
    assert "a grid has all combinations; got 6" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(command) == 2
    assert "Install fedloom[optuna]" in capsys.readouterr().err
    clients = fl.data.from_arrays([([[1.0]], [0]), ([[2.0]], [1])])
    with pytest.raises(ParameterError, match="search must be one of"):
        fl.sweep(
            {"a": fl.algorithms.FedAvg(lr=0.1)},
            fl.problems.Logistic(),
            clients,
            over={"lr": [1]},
            search="tpe",
        )


def test_scores_are_of_one_metric_problem_batch_size_and_division(tmp_path):
    """They went by the values of the fields alone: a search by accuracy was decided by losses."""
    iris = fl.data.load("iris")
    partitioned = functools.partial(fl.data.partition, scheme="iid", clients=3)
    methods = {"fedavg": fl.algorithms.FedAvg(lr=0.1)}
    usual = {
        "problem": fl.problems.Multinomial(),
        "clients": partitioned(iris),
        "metric": "loss",
        "batch_size": 8,
        "validation": 0.2,
    }

    def scores(out, problem, clients, **options):
        found = fl.sweep(
            methods, problem, clients, over={"lr": [0.01, 1.0]}, rounds=3, out=out, **options
        )
        return found.rows, found.best["fedavg"].setting

    scores(tmp_path, **usual)
    for change in (
        {"metric": "accuracy"},
        {"problem": fl.problems.Multinomial(l2=1.0)},
        {"batch_size": 1},
        {"clients": fl.data.partition(iris, "iid", clients=3, seed=1)},
        {"clients": partitioned(dataclasses.replace(iris, x=iris.x + np.eye(150, 4)))},
        {"validation": 0.5},
    ):
        assert scores(tmp_path, **usual | change) == scores(None, **usual | change)
