"""Sentences of the pages and of the README about the papers, held against raw results.

Those of one page alone are in test_sentences_of_PAGE.py.
"""

import math

import numpy as np
import pytest

from fedloom.experiments import papers, raw_results
from measured import bytes_at, iterations, rows_of, setup_of
from tools import reproductions, step_tables

KEPT = sorted(path.stem for path in reproductions.RAW.glob("*.jsonl"))


def test_what_the_readme_says_of_the_papers():
    of = {name: rows_of(name) for name in KEPT}
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


def test_what_is_said_of_bytes_of_the_robust_methods():
    """By sex DRFA saves bytes, by race it does not; AFL on Shakespeare asks every role."""
    first = {m: row["first there"] for m, row in rows_of("robust-adult-race").items()}
    assert [first[m] for m in ("drfa", "fedavg", "q_fedavg")] == [20, 40, 50]
    race = [bytes_at("robust-adult-race", m, first[m]) for m in ("drfa", "fedavg")]
    assert [round(value / 1e6, 1) for value in race] == [10.9, 10.9]
    first = {m: row["first there"] for m, row in rows_of("robust-adult-sex").items()}
    sex = [bytes_at("robust-adult-sex", m, first[m]) for m in ("afl", "drfa")]
    assert sex[0] / sex[1] == pytest.approx(3, abs=0.02)
    words = setup_of("robust-shakespeare").algorithms
    assert words["fedavg"].cohort * words["fedavg"].local_steps * 10 == 1000  # AFL: 100 of 100


def test_what_is_said_of_the_cost_of_chosen_rates():
    """A search has a run for each of three rates, a table one for each seed."""
    page = (reproductions.PAGES / "claims.md").read_text()
    for name, searched, said in (
        ("mnist", 240, "7 minutes"),
        ("cifar10", 400, "CIFAR-10: 16 and 40"),
    ):
        setup = setup_of(f"personal-{name}-rates")
        share = 3 * searched / (setup.compare.seeds * setup.run.rounds)
        minutes = papers.facts(f"personal-{name}-rates").minutes
        assert {"mnist": 7, "cifar10": 40}[name] == minutes
        assert round(share * minutes) == {"mnist": 7, "cifar10": 16}[name] and said in page


def test_what_is_said_of_bytes_of_the_vertical_methods():
    """By bytes EGVFL with the mean is behind ADMM on mushrooms and GD on a9a; RandK at a half."""
    sent = {
        (data, m): bytes_at(f"vertical-{data}", m, needed)
        for data in ("mushrooms", "a9a", "w8a", "mnist")
        for m, needed in iterations(rows_of(f"vertical-{data}")).items()
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
