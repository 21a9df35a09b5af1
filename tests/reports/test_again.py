"""The command that a page gives for its numbers, taken from the page and run."""

import html
import re
import shlex

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.main import main

OWN = """
import fedloom as fl
from fedloom.algorithms.averaging.fedavg import FedAvg


def gini(scores, labels):
    return float(scores.std())


merit = fl.Metric(gini, larger_is_better=True, of="scores")
"""
SETTINGS = """
# what I try
[data]
sites = "my sites/*.csv"
label = "sick"
test_fraction = 0.25

[problem]
kind = "logistic"

[[algorithm]]
key = "own.py:FedAvg"
lr = 0.5

[run]
rounds = 4
metrics = ["loss", "own.py:merit"]

[sweep.over]
lr = [0.1]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    (root / "my sites").mkdir()
    for name, seed in (("north", 0), ("south", 1)):
        rng = np.random.default_rng(seed)
        age = rng.normal(size=30)
        sick = np.where(age > 0.3, "yes", "no").tolist()
        pl.DataFrame({"age": age, "sick": sick}).write_csv(root / "my sites" / f"{name}.csv")
    (root / "own.py").write_text(OWN)
    (root / "s.toml").write_text(SETTINGS)
    return root


def command_of(page):
    section = page.read_text().partition("How to get these numbers again")[2]
    return shlex.split(html.unescape(re.search(r"<pre><code>(.*?)</code>", section).group(1)))


@pytest.mark.parametrize(
    "verb,kept", [("run", ""), ("compare", "FedAvg/seed-0"), ("sweep", "best/FedAvg/seed-0")]
)
def test_the_command_on_the_page_gives_the_same_numbers(verb, kept, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)  # where data are found by relative paths
    changes = ["--set", "run.rounds=2", "--set", "problem.l2=0.1"]
    assert main([verb, "s.toml", "--out", f"kept/{verb} 1", *changes]) == 0
    assert main(["report", str(folder / "kept" / f"{verb} 1")]) == 0
    program, *arguments = command_of(folder / "kept" / f"{verb} 1" / "report.html")
    assert program == "fedloom" and arguments[0] == verb
    monkeypatch.chdir(tmp_path)  # and from where they are not
    assert main([*arguments, "--out", "again"]) == 0
    places = (folder / "kept" / f"{verb} 1", tmp_path / "again")
    before, after = (fl.load(place / kept) for place in places)
    for ours, theirs in zip(before.rows, after.rows, strict=True):
        assert ours | {"seconds": 0} == theirs | {"seconds": 0}
    assert before.final["round"] == 2 and "l2=0.1" in before.about["problem"]


def test_a_file_that_says_all_is_kept_as_it_was_written(tmp_path):
    text = (
        "# mine\ndata = { name = 'iris' }\npartition = { scheme = 'iid', clients = 3 }\n"
        "problem = { kind = 'multinomial' }\nalgorithm = { key = 'fedavg', lr = 0.1 }\n"
        "run = { rounds = 1 }\n"
    )
    (tmp_path / "s.toml").write_text(text)
    assert main(["run", str(tmp_path / "s.toml"), "--out", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o" / "settings.toml").read_text() == text
    assert main(["run", "--resume", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o" / "settings.toml").read_text() == text
    assert main(["run", "--resume", str(tmp_path / "o"), "--set", "run.rounds=2"]) == 0
    assert "rounds = 2" in (tmp_path / "o" / "settings.toml").read_text()
