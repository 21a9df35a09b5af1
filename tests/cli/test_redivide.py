"""A comparison in which every seed draws its own division into training and test rows."""

import shutil

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.preparation import SiteFiles
from fedloom.reports.page import render
from fedloom.reports.reading import read

SETTINGS = """
[data]
sites = "sites/*.csv"
label = "sick"
test_fraction = 0.3
ignore = ["ward"]

[problem]
kind = "logistic"
class_weights = "balanced"
regulariser = { kind = "l1", strength = 0.01 }

[algorithm]
key = "fedmid"
lr = 0.3
local_steps = 2

[run]
rounds = 2

[compare]
seeds = 2
redivide = true
"""


def table(rows, seed):
    rng = np.random.default_rng(seed)
    age, job = rng.normal(50, 9, rows), ["pilot", *rng.choice(["cook", "nurse"], rows - 1)]
    sick = (age > 50).astype(int)
    return pl.DataFrame({"age": age, "job": job, "ward": ["a"] * rows, "sick": sick})


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of such a comparison; a single row has the word pilot."""
    home = tmp_path_factory.mktemp("hospitals")
    (home / "sites").mkdir()
    for number, name in enumerate(("north", "south")):
        table(20, number).with_columns(
            job=pl.col("job") if number else pl.col("job").replace("pilot", "cook")
        ).write_csv(home / f"sites/{name}.csv")
    (home / "s.toml").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert main(["compare", "s.toml", "--out", "kept"]) == 0
    return home / "kept"


def test_each_seed_trains_on_rows_of_its_own_division(kept):
    first, second = (fl.load(kept / f"fedmid/seed-{seed}") for seed in (0, 1))
    means = [run.about["preparation"]["columns"][0]["mean"] for run in (first, second)]
    assert means[0] != means[1]  # of the training rows
    assert tuple(first.client_names) == tuple(second.client_names) == ("north", "south")
    for seed, mean in enumerate(means):
        files = SiteFiles(
            str(kept.parent / "sites/*.csv"), "sick", test_fraction=0.3, seed=seed, ignore=("ward",)
        )
        assert files.clients().preparation.columns[0].mean == mean


def test_what_was_found_in_the_files_is_shown_once(kept, capsys, monkeypatch):
    monkeypatch.chdir(kept.parent)
    assert main(["compare", "--resume", "kept"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("Columns, over all sites") == 1 and "label 'sick'" in printed
    assert "north" in printed and "After 2 rounds, 2 seeds, each with its own" in printed


def test_the_folder_of_a_comparison_is_no_run_but_names_one(kept, capsys, monkeypatch):
    monkeypatch.chdir(kept.parent)
    assert main(["predict", "kept", "sites/north.csv"]) != 0
    assert "such as kept/fedmid/seed-0" in " ".join(capsys.readouterr().err.split())


def test_a_report_keeps_the_seeds_together_and_says_what_the_spread_covers(kept, capsys):
    (study,) = read([kept])
    assert [len(runs) for runs in study.methods.values()] == [2] and study.redivided
    page = render([study])
    assert "2 seeds, each with its own division" in page
    assert "Figures are on test rows" in page and "This was a simulation" in page
    assert "1 method on 2 sites" in page and "Training rows" in page and "Gaps" in page
    assert "“ward” (the settings ignore it)" in page and "without the preparation" in page
    assert "which rows were held out" in page and "randomness of training only" not in page
    assert main(["report", str(kept), "--format", "table"]) == 0
    assert "each with its own division" in " ".join(capsys.readouterr().out.split())


def test_what_is_resumed_is_divided_as_before(kept, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(kept.parent)
    again = tmp_path / "again"
    shutil.copytree(kept, again)
    shutil.rmtree(again / "fedmid/seed-1")
    assert main(["compare", "--resume", str(again)]) == 0
    runs = [fl.load(folder / "fedmid/seed-1") for folder in (kept, again)]
    assert runs[0].final["loss"] == runs[1].final["loss"]
    changed = ["--set", "compare.redivide=false"]
    capsys.readouterr()
    assert main(["compare", "--resume", str(again), *changed]) != 0
    assert "another redivided" in " ".join(capsys.readouterr().err.split())


def test_without_a_share_to_hold_out_there_is_nothing_to_divide(kept, capsys, monkeypatch):
    monkeypatch.chdir(kept.parent)
    for verb, said in (("compare", "test_fraction = 0.2"), ("sweep", "one division")):
        settings = kept.parent / f"{verb}.toml"
        settings.write_text(SETTINGS.replace("test_fraction = 0.3\n", ""))
        assert main([verb, str(settings), "--out", "none", "--set", "sweep.over.lr=[0.1]"]) != 0
        assert said in " ".join(capsys.readouterr().err.split())


def test_in_python_a_function_divides():
    rows = fl.data.load(table(40, 0).select("age", "sick"), label="sick")

    def divided(seed):
        return fl.data.partition(rows, "iid", clients=2, test_fraction=0.5, seed=seed)

    methods = {"FedAvg": fl.algorithms.FedAvg(lr=0.1, local_steps=1)}
    problem = fl.problems.Logistic()
    whole = fl.compare(methods, problem, divided, seeds=(0, 1), rounds=1)
    assert whole.redivided
    for seed, run in enumerate(whole.results["FedAvg"]):
        alone = fl.simulate(methods["FedAvg"], problem, divided(seed), seed=seed, rounds=1)
        assert run.final["loss"] == alone.final["loss"]

    def other(seed):
        return fl.data.partition(rows, "iid", clients=2 + seed)

    with pytest.raises(fl.errors.DataError, match="every seed must have the same clients"):
        fl.compare(methods, problem, other, seeds=(0, 1), rounds=1)


def rare_words(seed):
    """A table of which two of three words have 6 rows each: of few rows in some divisions only."""
    words = ["usual"] * 28 + ["north"] * 6 + ["south"] * 6
    return table(40, seed).with_columns(job=pl.Series(words))


def test_seeds_with_other_columns_as_features_are_not_compared():
    def divided(seed):
        frames = {"a": rare_words(0).drop("ward")}
        return fl.preparation.from_frames(frames, "sick", test_fraction=0.4, seed=seed)

    left_out = {"job" in divided(seed).left_out for seed in range(4)}
    assert left_out == {True, False}
    methods = {"FedAvg": fl.algorithms.FedAvg(lr=0.1, local_steps=1)}
    said = r"'job' is left out for seed \d \(its words .* and not for seed \d. Name it .* features"
    with pytest.raises(fl.errors.DataError, match=said):
        fl.compare(methods, fl.problems.Logistic(), divided, seeds=range(4), rounds=1)


def test_nor_where_workers_divide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites").mkdir()
    rare_words(0).write_csv("sites/a.csv")
    changed = SETTINGS.replace("seeds = 2", "seeds = 4").replace("0.3\nignore", "0.4\nignore")
    (tmp_path / "s.toml").write_text(changed)
    assert main(["compare", "s.toml", "--out", "kept", "--workers", "1"]) != 0
    assert "'job' is left out for seed" in " ".join(capsys.readouterr().err.split())
