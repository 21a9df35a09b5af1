"""Tables of reproductions from known raw results, and raw results from parts."""

import dataclasses
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import in_parts, joined_parts
from fedloom.errors import DataError
from fedloom.experiments import comparing, papers, raw_results, reproduction_table, settings
from fedloom.experiments.options import CompareSettings
from fedloom.experiments.raw_results import Raw, Run
from tools import chosen, reproduction_pictures, slope_tables, step_tables


def test_what_a_search_chose_is_put_into_its_settings(tmp_path, monkeypatch):
    def trial(method, lr, rounds, value):
        return {"method": method, "lr": lr, "rounds": rounds, "accuracy": value}

    trials = [trial("a, b", 0.2, 10, 0.5), trial("a, b", 0.1, 10, 0.6), trial("a, b", 0.4, 5, 0.9)]
    trials += [trial("fedavg", 0.3, 10, math.nan), trial("fedavg", 0.05, 10, 0.1)]
    facts = {"metric": "accuracy", "larger_is_better": True, "over": ["lr"], "trials": trials}
    (tmp_path / "x-sweep.json").write_text(json.dumps(facts))
    monkeypatch.setattr(chosen, "RAW", tmp_path)
    text = """lr = 9
[[algorithm]]
name = "a, b"
key = "quped"
lr = 1.0  # a rate
common_lr = 2.0
[[algorithm]]
key = "fedavg"
lr = 1.0
[run]
rounds = 3
"""
    wanted = text.replace("lr = 1.0  # a rate\n", "lr = 0.1\n", 1).replace("lr = 1.0", "lr = 0.05")
    assert chosen.changed(text, chosen.searched("x")) == wanted


def test_a_slope_is_that_of_a_line_through_logarithms(tmp_path, monkeypatch):
    def points(series, values):
        return [{"series": series, "x": x, "seed": 0, "value": v} for x, v in values.items()]

    about = {"varied": "n", "measured": "rounds", "by_theory": {"a": "2"}, "log": True}
    about |= {"command": "python -m benchmarks.slopes known", "date": "2026-11-18"}
    about |= {"machine": "2 cores", "versions": {"jax": "0.10.1"}}
    known = points("a", {1: 3.0, 10: 300.0, 100: 30000.0}) + points("b", {1: 5.0, 10: None})
    (tmp_path / "known.json").write_text(json.dumps(about | {"points": known}))
    monkeypatch.setattr(slope_tables, "RAW", tmp_path)
    text = slope_tables.table("known")
    assert "| a | 1: 3, 10: 300, 100: 3e+04 | +2.00 | 2 |" in text.replace("3.00e+04", "3e+04")
    assert "| b | 1: 5, 10: not reached |  |  |" in text
    assert "No raw results yet" in slope_tables.table("another")


def test_a_long_row_has_its_ends_and_some_points_between(tmp_path, monkeypatch):
    points = [{"series": "a", "x": float(x), "seed": 0, "value": 1.0} for x in range(61)]
    about = {"varied": "seconds", "measured": "loss", "by_theory": None, "log": False}
    about |= {"command": "a command", "date": "2026-11-19", "machine": "2 cores"}
    about |= {"versions": {"jax": "0.10.1"}, "points": points}
    (tmp_path / "long.json").write_text(json.dumps(about))
    monkeypatch.setattr(slope_tables, "RAW", tmp_path)
    row, *_ = [line for line in slope_tables.table("long").splitlines() if line.startswith("| a")]
    assert row.count(": ") == 8 and row.startswith("| a | 0: 1, ") and row.endswith("60: 1 |")
    assert "A row has 8 of up to 61 points." in slope_tables.table("long")
    assert slope_tables.some(list(range(12))) == list(range(12))


def test_of_values_that_were_tried_the_fastest_that_all_seeds_reach_is_best(tmp_path, monkeypatch):
    tried = [
        {"method": "GD", "step": 0.1, "limit": 90, "iterations": [30, 40], "all": True, "up": 40.0},
        {"method": "GD", "step": 0.2, "limit": 90, "iterations": [10], "all": False},
        {"method": "GD", "step": 0.15, "limit": 9, "iterations": [20, 30], "all": True, "up": 25.0},
        {"method": "EGVFL", "step": 0.1, "limit": 90, "iterations": [], "all": False},
    ]
    for line in tried:
        line["down"] = 10.0
    about = {"target": 1e-4, "command": "a command", "date": "2026-11-18", "tried": tried}
    about |= {"machine": "2 cores"}
    (tmp_path / "x-steps.json").write_text(json.dumps(about | {"versions": {"jax": "0.10.1"}}))
    monkeypatch.setattr(step_tables, "RAW", tmp_path)
    assert "| GD | 3 | 0.15 | 25 | 35 | 25 |" in step_tables.table("x")
    assert "| EGVFL | 1 | none | not in 90 |  |  |" in step_tables.table("x")


def test_a_table_of_known_numbers(tmp_path):
    """Two seeds, evaluated four times: the optimum is 0.9, and one seed leaves it again."""

    def run(seed, values):
        rounds = [0, 10, 20, 30]
        sent = {"bytes_up": [0, 100, 200, 300], "bytes_down": [0, 50, 100, 150]}
        return Run("ffmdr", seed, "done", 0.9, {"round": rounds, **sent, "auc": values})

    about = {"metrics": ["auc"], "larger_is_better": True}
    runs = [run(0, [0.5, 0.901, 0.8995, 0.9]), run(1, [0.5, 0.95, 0.9, 0.9012])]
    raw = Raw(about, {"ffmdr": runs})
    raw_results.write(raw, tmp_path / "raw.jsonl")
    assert raw_results.read(tmp_path / "raw.jsonl") == raw
    one = papers.Facts(
        shows="a table", data="none", minutes=1.0, printed={"ffmdr": 0.91}, best=True, rounds=(10,)
    )
    (row,) = reproduction_table.rows(raw, one, None)
    assert row == pytest.approx(
        {
            "method": "ffmdr", "paper": 0.91, "round 10": 0.9255, "AUC": 0.9006,
            "AUC spread": 0.0012 / 2**0.5, "best over rounds": 0.9255,
            "best over rounds spread": 0.049 / 2**0.5, "optimum": 0.9, "off": 0.0006,
            "rounds to stay": 15, "bytes": 225,
        }
    )  # fmt: skip
    unknown = raw._replace(runs={"ffmdr": [run._replace(optimum=None) for run in runs]})
    (aimed,) = reproduction_table.rows(unknown, one, 0.9)
    assert (aimed["first there"], aimed["rounds to stay"], aimed["bytes"]) == (10, 20, 300)
    (missed,) = reproduction_table.rows(unknown, one, 0.901)
    assert missed["rounds to stay"] == "30 (1 of 2 seeds)" and "optimum" not in missed
    wild = raw._replace(runs={"ffmdr": [runs[0], runs[1]._replace(status="diverged")]})
    tuned = dataclasses.replace(one, tuned_on_test=("ffmdr",))
    assert reproduction_table.rows(wild, tuned, None)[0]["method"] == "ffmdr (1 of 2 diverged) †"
    (texts,) = reproduction_table.cells([row])
    assert texts["AUC"].text == "0.90060 ± 0.00085" and texts["off"].text == "+0.0006"
    assert "within 0.002 of the optimum" in reproduction_table.caption(raw, one, None)
    (tmp_path / "other.jsonl").write_text("no JSON")
    with pytest.raises(DataError, match="no file of raw results"):
        raw_results.read(tmp_path / "other.jsonl")


def test_a_method_with_fewer_seeds_or_none_is_said_to_have_them(tmp_path):
    def run(method, seed, value):
        columns = {"round": [0, 4], "bytes_up": [0, 9], "bytes_down": [0, 9]}
        return Run(method, seed, "done", None, columns | {"accuracy": [0.1, value]})

    runs = {"a": [run("a", 0, 0.5), run("a", 1, 0.7)], "b": [run("b", 0, 0.6)], "c": []}
    seeds = {method: len(group) for method, group in runs.items()}
    about = {"metrics": ["accuracy"], "larger_is_better": True, "seeds": seeds}
    raw_results.write(Raw(about, runs), tmp_path / "raw.jsonl")
    raw = raw_results.read(tmp_path / "raw.jsonl")
    assert raw.runs == runs and list(raw.runs) == ["a", "b", "c"]
    one = papers.Facts(shows="a table", data="none", minutes=1.0, printed={"a": 0.8, "c": 0.9})
    made = reproduction_table.rows(raw, one, None)
    texts = reproduction_table.cells(made)
    assert [row["seeds"].text for row in texts] == ["2", "1", "0"]
    assert [row["Accuracy"].text for row in texts] == ["0.60 ± 0.14", "0.6", "not run"]
    assert list(texts[2]) == list(texts[0])
    assert [name for name, cell in texts[2].items() if cell.text] == [
        "method", "paper", "seeds", "Accuracy",
    ]  # fmt: skip
    assert "over as many seeds as were run" in reproduction_table.caption(raw, one, None)
    drawn = reproduction_pictures.draw(raw, CompareSettings(title="three methods"))
    assert len(drawn.figure.axes[0].curves) == 2
    assert "of up to 2 seeds" in drawn.figure.get_suptitle()


def test_the_optimum_of_a_method_is_that_of_its_own_problem(tmp_path, monkeypatch):
    """FFMDR has separate duals and CODASCA a shared one; the AUC is that of the solution there."""
    path = tmp_path / "small.toml"
    path.write_text(
        'data = { name = "breast_cancer" }\npartition = { scheme = "iid", clients = 2 }\n'
        'problem = { kind = "auc" }\n'
        '[[algorithm]]\nkey = "ffmdr"\nbeta = 1.0\nsolver = { kind = "sgda", lr = 0.1 }\n'
        '[[algorithm]]\nkey = "codasca"\nlr = 0.1\ndual_lr = 0.1\n'
    )
    weights = {"separate": np.eye(30)[0], "shared": np.eye(30)[1]}

    def solved(problem, clients, *, dual):
        return SimpleNamespace(model={"w": weights[dual], "bias": np.zeros(2)})

    monkeypatch.setattr(raw_results, "reference", solved)
    setup = settings.read(path)
    found, rows = raw_results.optima(setup, "auc"), setup.clients().train
    for name, column in (("ffmdr", 0), ("codasca", 1)):
        one, other = rows.x[rows.y > 0, column][:, None], rows.x[rows.y == 0, column]
        expected = np.mean((one > other) + 0.5 * (one == other))
        assert found[name] == pytest.approx(expected, abs=1e-6)
    assert raw_results.optima(setup, "objective") == {}


def test_parts_that_are_joined_are_what_one_process_makes(tmp_path, monkeypatch):
    path = tmp_path / "small.toml"
    path.write_text(
        'data = { name = "breast_cancer" }\n'
        'partition = { scheme = "iid", clients = 2, test_fraction = 0.2 }\n'
        'problem = { kind = "auc" }\nrun = { rounds = 2, metrics = ["auc"] }\n'
        'compare = { seeds = 2, metric = "auc" }\n'
        "[sweep.over]\nlr = [0.1, 0.01]\ndual_lr = [0.1]\nbeta = [1.0, 2.0]\n"
        '[[algorithm]]\nkey = "ffmdr"\nbeta = 1.0\nsolver = { kind = "sgda", lr = 0.1 }\n'
        '[[algorithm]]\nkey = "codasca"\nlr = 0.1\ndual_lr = 0.1\n'
    )
    monkeypatch.setattr(papers, "available", lambda: {"small": path})
    monkeypatch.setattr(joined_parts, "RAW", tmp_path)
    monkeypatch.setattr(raw_results, "optima", lambda setup, metric: {"ffmdr": 0.5, "codasca": 0.6})
    chosen = SimpleNamespace(out=tmp_path, rounds=2)
    for kind, count in (("runs", 5), ("search", 2)):
        waiting = in_parts.missing(kind, ["small"], tmp_path)
        assert len(waiting) == count
        for name, number, part in waiting:
            made = json.dumps(in_parts.make(kind, name, number, chosen))
            in_parts.place(tmp_path, kind, name, part).write_text(made)
        assert in_parts.missing(kind, ["small"], tmp_path) == []
    joined, setup = raw_results.read(in_parts.join("runs", "small", chosen)), settings.read(path)
    whole = comparing.compare(
        setup.algorithms, setup.problem, setup.clients(), seeds=range(2), metric="auc", rounds=2,
        metrics=("auc",),
    )  # fmt: skip
    expected = raw_results.collect("small", setup, whole.results)
    assert joined.runs == expected.runs
    assert joined.about["settings"] == expected.about["settings"]
    trials = json.loads(in_parts.join("search", "small", chosen).read_text())["trials"]
    assert [(t["method"], t.get("beta"), t.get("lr")) for t in trials if t["method"] == "ffmdr"]
    assert sorted(t["method"] for t in trials) == ["codasca"] * 2 + ["ffmdr"] * 2
    path.write_text(path.read_text().replace("seeds = 2", "seeds = 1"))
    fewer = raw_results.read(in_parts.join("runs", "small", chosen))
    assert fewer.runs == {name: runs[:1] for name, runs in expected.runs.items()}
    path.write_text(path.read_text().replace("seeds = 1", "seeds = 2"))
    in_parts.place(tmp_path, "runs", "small", in_parts.Part("codasca", 1)).unlink()
    some = ["in_parts", "small", "--join", "--out", str(tmp_path)]
    (tmp_path / "small.jsonl").unlink()
    monkeypatch.setattr("sys.argv", some)
    in_parts.main()
    assert not (tmp_path / "small.jsonl").exists()
    monkeypatch.setattr("sys.argv", [*some, "--some"])
    in_parts.main()
    lacking = raw_results.read(tmp_path / "small.jsonl")
    assert lacking.about["seeds"] == {"ffmdr": 2, "codasca": 1}
    assert lacking.about["command"].endswith("in_parts small --some")
    assert lacking.runs == expected.runs | {"codasca": expected.runs["codasca"][:1]}
    later = tmp_path / "later"  # where nothing is left but raw results
    later.mkdir()
    in_parts.go_on("small", later)
    assert in_parts.missing("runs", ["small"], later) == [("small", 4, ("codasca", 1))]
    in_parts.join("runs", "small", SimpleNamespace(out=later))
    again = raw_results.read(tmp_path / "small.jsonl")
    assert again.runs == lacking.runs
    assert again.about == lacking.about | {"seconds_in_rounds": again.about["seconds_in_rounds"]}
    path.write_text(path.read_text().replace("seeds = 2", "seeds = 3"))
    more = tmp_path / "more"  # seeds than were run, which are no other settings
    more.mkdir()
    in_parts.go_on("small", more)
    left = in_parts.missing("runs", ["small"], more)
    assert [task.part for task in left] == [("codasca", 1), ("ffmdr", 2), ("codasca", 2)]
    path.write_text(path.read_text().replace("seeds = 3", "seeds = 2"))
    path.write_text(path.read_text().replace("rounds = 2", "rounds = 3"))
    in_parts.go_on("small", tmp_path / "other")  # of other settings nothing is taken
    assert not (tmp_path / "other").exists()
    with pytest.raises(SystemExit, match="made with other settings: optima, ffmdr, codasca"):
        in_parts.join("runs", "small", chosen)
