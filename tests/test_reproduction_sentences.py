"""Sentences of the pages and of the README about the papers, held against raw results.

Those on personal models are in test_personal_sentences.py, on robust methods in
test_sentences_of_robust.py.
"""

import json
import math

import numpy as np
import pytest

from fedloom.experiments import papers, raw_results, reproduction_table, settings
from tools import reproductions, step_tables

KEPT = sorted(path.stem for path in reproductions.RAW.glob("*.jsonl"))


@pytest.fixture(scope="module")
def setups():
    return {name: settings.read(papers.available()[name]) for name in KEPT}


def rows_of(name, setups):
    raw = raw_results.read(reproductions.RAW / f"{name}.jsonl")
    rows = reproduction_table.rows(raw, papers.facts(name), setups[name].compare.target)
    return {row["method"]: row for row in rows}


def test_what_the_readme_says_of_the_papers(setups):
    of = {name: rows_of(name, setups) for name in KEPT}
    full = {m: row["Optimality"] for m, row in of["composite-full-gradients"].items()}
    assert full["decoupled_prox"] < 1e-6 < 0.1 < min(full["fedmid"], full["feddualavg"])
    small, middle, large = of["composite-step-sizes"].values()
    assert small["round 300"] > large["round 300"] > middle["round 300"]
    assert small["Optimality"] < middle["Optimality"] < large["Optimality"]
    assert [row["round 300"] for row in of["composite-local-steps"].values()] == sorted(
        (row["round 300"] for row in of["composite-local-steps"].values()), reverse=True
    )
    for data in ("", "-a9a"):
        assert all(abs(row["off"]) < 0.001 for row in of[f"minimax-attendance{data}"].values())
    for data in ("-ijcnn1", "-covtype"):
        stay = {m: row["rounds to stay"] for m, row in of[f"minimax-attendance{data}"].items()}
        assert stay["100 %"] < stay["50 %"] < 200 and stay["25 %"] == "not reached"
    digits = {m: row["Accuracy"] for m, row in of["personal-digits"].items()}
    assert digits["QuPeD"] < digits["local"] and digits["FedAvg"] < digits["QuPeD"] - 0.05
    for network, above in (("mnist", 1), ("femnist", 1), ("ag-news", -1)):
        reached = {m: row["Accuracy"] for m, row in of[f"personal-{network}"].items()}
        for bits in ("", ", 2 bits", ", 1 bit"):
            assert above * (reached[f"QuPeD{bits}"] - reached[f"local{bits}"]) > 0
    for data in ("mushrooms", "a9a", "w8a", "mnist"):
        needed = iterations(of[f"vertical-{data}"])
        assert max(needed["AGD"], needed["ADMM, beta-trick"]) < needed["EGVFL, beta-trick"]
        faster = needed["EGVFL, beta-trick"] < min(needed["GD"], needed["ADMM"])
        assert faster == (data != "w8a")
        needed = iterations(of[f"vertical-{data}-sum"])
        assert needed["EGVFL, beta-trick"] == needed["ADMM, beta-trick"] == math.inf
        assert needed["AGD"] < needed["GD"] <= needed["ADMM"] <= needed["EGVFL"]
    for name, of_gd in (
        ("tuned", 1), ("a9a-tuned", 1), ("w8a-tuned", 0),
        ("tuned-sum", -1), ("a9a-tuned-sum", -1), ("w8a-tuned-sum", -1),
    ):  # fmt: skip
        tuned = iterations(of[f"vertical-{name}"])
        own = tuned["EGVFL, beta-trick" if name == "tuned" else "EGVFL"]
        assert tuned["ADMM"] < tuned["AGD"] < own
        assert np.sign(tuned["GD"] - own) == of_gd


def iterations(rows):
    """Rounds from which on each method stays at the target; infinite where it does not."""
    said = {m: row["rounds to stay"] for m, row in rows.items()}
    return {m: math.inf if value == "not reached" else value for m, value in said.items()}


def test_the_places_of_ffmdr_in_table_2_are_those_of_the_raw_results(setups):
    page, titles = (reproductions.PAGES / "minimax.md").read_text(), {
        "phishing": "phishing", "ijcnn1": "ijcnn1, LIBSVM's test file",
        "ijcnn1-fifth": "ijcnn1, a random fifth", "a9a": "a9a", "covtype": "covtype, a subset",
        "w8a": "w8a",
    }  # fmt: skip
    for data, title in titles.items():
        best = {m: r["best over rounds"] for m, r in rows_of(f"minimax-{data}", setups).items()}
        paper = papers.facts(f"minimax-{data}").printed
        places = [1 + sum(best[m] > best["ffmdr"] for m in of) for of in (best, paper)]
        first = max(best, key=best.get)
        assert f"| {title} | {places[0]} | {places[1]} | {first} {best[first]:.4f} |" in page


def test_what_is_said_of_the_pace_of_minimax_methods(setups):
    """Who is first to stay at the optimum of its problem; FedNest is ahead of FFMDR nearby only."""
    of = {
        data: iterations(rows_of(f"minimax-{data}", setups))
        for data in ("phishing", "ijcnn1", "ijcnn1-fifth", "a9a", "covtype", "w8a")
    }
    paper = ("codasca", "fed_norm_sgda", "fedsgda_m", "fednest")
    whole = {data: {m: v for m, v in s.items() if not isinstance(v, str)} for data, s in of.items()}
    first = {d: all(whole[d].get(m, 1e9) > whole[d]["ffmdr"] for m in paper) for d in of}
    assert [data for data, is_first in first.items() if is_first] == ["a9a", "covtype", "w8a"]
    assert of["ijcnn1-fifth"]["ffmdr"] == of["ijcnn1-fifth"]["fed_norm_sgda"] == 50
    assert [of["w8a"][m] for m in ("ffmdr", "ffmdr_consensus")] == [880, 680]
    found = json.loads((reproductions.RAW / "minimax-accuracies.json").read_text())
    rounds = {(point["series"], point["x"]): point["value"] for point in found["points"]}
    assert rounds["fednest", 100] < rounds["ffmdr", 100]
    assert all(rounds["fednest", x] > rounds["ffmdr", x] for x in (1000, 10_000))
    found = json.loads((reproductions.RAW / "minimax-conditions.json").read_text())
    rounds = {(point["series"], point["x"]): point["value"] for point in found["points"]}
    assert all(rounds["fednest", x] < rounds["ffmdr", x] for x in (1.0, 3.33, 10.0, 33.3))


def mean_of(name, metric, method, at=None):
    """Over the seeds, at a round or at the last evaluation."""
    runs = raw_results.read(reproductions.RAW / f"{name}.jsonl").runs[method]
    where = -1 if at is None else runs[0].columns["round"].index(at)
    return float(np.mean([run.columns[metric][where] for run in runs]))


def bytes_at(name, method, rounds):
    """Both ways, until a round."""
    columns = raw_results.read(reproductions.RAW / f"{name}.jsonl").runs[method][0].columns
    where = columns["round"].index(rounds)
    return columns["bytes_up"][where] + columns["bytes_down"][where]


def test_what_is_said_of_composite_steps():
    """How fast each step size is, and the slope of the floor against rows in a batch."""
    early = [
        mean_of("composite-step-sizes", "optimality", f"eta = {e}", 30) for e in (1, 0.2, 0.02)
    ]
    assert [round(value, 3) for value in early] == [0.024, 0.434, 0.901]
    rows = np.array([5, 20, 80, 320])
    slope = np.polyfit(np.log(rows), np.log((500 - rows) / 499 / rows), 1)[0]
    assert round(float(slope), 2) == -1.23
    page = " ".join((reproductions.PAGES / "composite.md").read_text().split())
    assert "0.024 with eta = 1, 0.43 with 0.2 and 0.90 with 0.02" in page and "of -1.23" in page


def test_what_is_said_of_the_cost_of_chosen_rates(setups):
    """A search has a run for each of three rates, a table one for each seed."""
    page = (reproductions.PAGES / "claims.md").read_text()
    for name, searched, said in (
        ("mnist", 240, "7 minutes"),
        ("cifar10", 400, "CIFAR-10: 16 and 40"),
    ):
        setup = settings.read(papers.available()[f"personal-{name}-rates"])
        share = 3 * searched / (setup.compare.seeds * setup.run.rounds)
        minutes = papers.facts(f"personal-{name}-rates").minutes
        assert {"mnist": 7, "cifar10": 40}[name] == minutes
        assert round(share * minutes) == {"mnist": 7, "cifar10": 16}[name] and said in page


def test_what_is_said_of_bytes_of_the_vertical_methods(setups):
    """By bytes EGVFL with the mean is behind ADMM on mushrooms and GD on a9a; RandK at a half."""
    sent = {
        (data, m): bytes_at(f"vertical-{data}", m, needed)
        for data in ("mushrooms", "a9a", "w8a", "mnist")
        for m, needed in iterations(rows_of(f"vertical-{data}", setups)).items()
        if needed < math.inf
    }
    own = {data: sent[data, "EGVFL, beta-trick"] for data in ("mushrooms", "a9a", "w8a", "mnist")}
    ahead = {(d, m) for d, m in sent if m in ("GD", "ADMM") and sent[d, m] < own[d]}
    assert ahead == {("mushrooms", "ADMM"), ("a9a", "GD"), ("w8a", "GD"), ("w8a", "ADMM")}
    compressed = step_tables.best("vertical-compression")
    full = {m: line["up"] + line["down"] for m, line in compressed.items()}
    assert full["RandK 50%"] > full["EGVFL"] > full["RandK 25%"] > full["RandK 10%"]
    a9a = {
        m: line["up"] + line["down"] for m, line in step_tables.best("vertical-a9a-tuned").items()
    }
    assert a9a["GD"] < a9a["EGVFL"]
    (run,) = raw_results.read(reproductions.RAW / "vertical-linear.jsonl").runs["TopK 25%, tuned"]
    gaps = dict(zip(run.columns["round"], run.columns["relative_gap"], strict=True))
    assert min(gaps, key=gaps.get) == 5500 and round(1e9 * gaps[5500]) == 3


def test_what_is_said_of_the_cost_of_rounds_of_minimax_methods():
    """Bytes of a round beside FFMDR's, and coins beside fixed cohorts."""
    own = bytes_at("minimax-phishing", "ffmdr", 1000)
    for method, times in (("codasca", 2), ("fedsgda_m", 2), ("fednest", 2.5)):
        assert bytes_at("minimax-phishing", method, 1000) / own == pytest.approx(times, rel=0.02)
    for data in ("", "-ijcnn1", "-a9a", "-covtype", "-w8a"):
        runs = raw_results.read(reproductions.RAW / f"minimax-attendance{data}.jsonl").runs
        means = [
            np.mean([r.columns["auc"] for r in runs[m]], 0) for m in ("25 %", "25 %, by coins")
        ]
        apart = abs(np.subtract(*means))[np.array(runs["25 %"][0].columns["round"]) >= 100]
        assert (apart.max() < 0.001) == (data != "-w8a")


def test_what_is_said_of_the_steps_that_held_out_rows_chose(setups):
    """The shortest of the dual for all that have two steps; FedNest's, as long as it is here."""
    sets = ("phishing", "ijcnn1", "ijcnn1-fifth", "a9a", "covtype", "w8a")
    methods = {data: setups[f"minimax-{data}"].algorithms for data in sets}
    longer = {
        (data, name)
        for data, of in methods.items()
        for name, method in of.items()
        if getattr(method, "dual_lr", 1e-4) != 1e-4 and name != "fednest"
    }
    assert longer == {("a9a", "codasca")}
    paper = ("codasca", "fed_norm_sgda", "fedsgda_m", "fednest")
    off = {(d, m): rows_of(f"minimax-{d}", setups)[m]["off"] for d in ("a9a", "w8a") for m in paper}
    assert {key for key, value in off.items() if value < 0} == {("w8a", "fed_norm_sgda")}
    lengths = [methods[d]["fednest"].lr / methods[d]["fednest"].local_steps for d in sets[1:3]]
    assert [round(length, 3) for length in lengths] == [0.008, 0.01]
    rows = rows_of("composite-a9a", setups)
    zeros = [rows[m]["Sparsity"] for m in ("decoupled_prox", "feddr", "fedmid", "feddualavg")]
    assert zeros[0] == zeros[1] == pytest.approx(78 / 123, rel=1e-4) and min(zeros[2:]) > zeros[0]
