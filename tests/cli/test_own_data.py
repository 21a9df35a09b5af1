"""Files of your own from the command line: run, predict, and every way to get it wrong."""

import json
import re

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.experiments.taking import preparation_of

SETTINGS = """
[data]
sites = "sites/*.csv"
label = "sick"
test_fraction = 0.25

[problem]
kind = "logistic"
intercept = true

[algorithm]
key = "fedavg"
lr = 0.5

[run]
rounds = 20
"""


def table(rows, seed):
    rng = np.random.default_rng(seed)
    age, job = rng.normal(50, 9, rows), rng.choice(["cook", "nurse"], rows)
    sick = np.where((age > 50) | (job == "nurse"), "yes", "no")
    return pl.DataFrame({"age": age, "job": job.tolist(), "sick": sick.tolist()})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites").mkdir()
    table(40, 0).write_csv("sites/north.csv")
    table(24, 1).write_csv("sites/south.csv")
    (tmp_path / "s.toml").write_text(SETTINGS)
    return tmp_path


def test_run_then_predict(folder, capsys):
    assert main(["run", "s.toml", "--out", "kept"]) == 0
    printed = capsys.readouterr().out
    for text in ("age", "numbers", "words", "nurse", "label 'sick': no, yes", "north", "missing"):
        assert text in printed
    assert main(["predict", "kept", "sites/north.csv"]) == 0
    said = pl.read_csv(capsys.readouterr().out.encode())
    assert said.columns == ["prediction", "probability of no", "probability of yes"]
    assert np.allclose(said["probability of no"] + said["probability of yes"], 1)
    truth = table(40, 0)["sick"]
    assert (said["prediction"] == truth).mean() > 0.85
    # What predict says of the rows is what the run said of the site.
    from fedloom.preparation import SiteFiles

    north = SiteFiles("sites/*.csv", "sick", test_fraction=0.25).tables()[0].test
    again = fl.predict("kept", north)
    accuracy = (again["prediction"] == north["sick"]).mean()
    assert accuracy == pytest.approx(fl.load("kept").clients["accuracy"][0])


def test_predict_writes_files_and_takes_rows_without_label(folder, capsys):
    assert main(["run", "s.toml", "--out", "kept", "--set", "problem.kind=multinomial"]) == 0
    new = table(5, 3).drop("sick").with_columns(job=pl.lit("pilot"), extra=1)
    new[:, ["job", "extra", "age"]].write_parquet("new.parquet")
    assert main(["predict", "kept", "new.parquet", "--out", "said.csv"]) == 0
    assert "5 predictions in said.csv" in capsys.readouterr().out
    said = pl.read_csv("said.csv")
    assert said.height == 5 and set(said["prediction"]) <= {"yes", "no"}


def test_codes_with_zeros_before_them_stay_as_they_are_written(folder, capsys):
    """CSV has no types: 007 reads as the number 7, and a Parquet file has the text."""
    codes = ["0" + str(place % 3) for place in range(24)]
    patients = [f"{place:04d}" for place in range(24)]
    north, south = (pl.read_csv(f"sites/{name}.csv")[:24] for name in ("north", "south"))
    south.with_columns(ward=pl.Series(codes)).write_parquet("sites/south.parquet")
    north.with_columns(ward=pl.Series(codes)).write_csv("sites/north.csv")
    (folder / "sites" / "south.csv").unlink()
    options = ("--set", 'data.categorical=["ward"]', "--out", "kept")
    assert main(["run", "s.toml", *options]) == 0
    (ward,) = (c for c in preparation_of(fl.load("kept")).columns if c.name == "ward")
    assert ward.words == ["00", "01", "02"]
    new = north.with_columns(ward=pl.Series(codes), patient=pl.Series(patients))
    new.write_csv("new.csv")
    capsys.readouterr()
    assert main(["predict", "kept", "new.csv", "--keep", "patient,ward"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[2].startswith("0001,01,") and not printed.err
    from_frame = fl.predict("kept", new)
    assert fl.predict("kept", "new.csv").equals(from_frame)


def test_a_regression_predicts_numbers(folder):
    for seed, name in enumerate(("north", "south")):
        frame = table(30, seed).with_columns(sick=pl.col("age") * 2.0 + 1)
        frame.write_csv(f"sites/{name}.csv")
    changes = ["--set", "problem.kind=least_squares", "--set", "algorithm.lr=0.2"]
    assert main(["run", "s.toml", "--out", "kept", *changes]) == 0
    new = pl.DataFrame({"age": [40.0, 60.0], "job": ["cook", "nurse"]})
    said = fl.predict("kept", new)
    assert said.columns == ["prediction"]
    np.testing.assert_allclose(said["prediction"], [81, 121], rtol=0.02)


def test_wrappers_from_settings(folder, capsys):
    wrappers = """
    [[wrapper]]
    kind = "unreliable"
    drop = 0.1

    [[wrapper]]
    kind = "private"
    clip = 1.0
    noise = 4.0
    """
    (folder / "s.toml").write_text(SETTINGS + wrappers)
    assert main(["run", "s.toml", "--out", "kept", "--format", "json"]) == 0
    final = json.loads(capsys.readouterr().out)["final"]
    assert 0 < final["epsilon"] < 1000
    about = fl.load("kept").about
    assert about["algorithm"].startswith("Private(inner=Unreliable(inner=FedAvg(")
    assert "preparation" in about and "prepared" in about["privacy"]["not covered"]
    assert main(["compare", "s.toml", "--out", "compared", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["epsilon"] == final["epsilon"]
    assert fl.predict("compared/fedavg/seed-0", SOUTH).equals(fl.predict("kept", SOUTH))
    assert main(["run", "--resume", "kept", "--set", "run.rounds=25"]) == 0
    assert fl.load("kept").final["epsilon"] > final["epsilon"]


def but(old, new):
    assert old in SETTINGS
    return SETTINGS.replace(old, new)


def more(line):
    return but('label = "sick"', f'label = "sick"\n{line}')


WRAPPER = SETTINGS + "\n[[wrapper]]\n"
MISUSES = {
    "typo": (but("sites =", "site ="), r"needs name, path or sites"),
    "typo in an option": (but("test_fraction", "test_frac"), r"line 5, data.test_frac: is not a"),
    "no label": (but('label = "sick"\n', ""), "line 2, data: SiteFiles needs label"),
    "wrong type": (but('"sick"', "3"), "data.label: SiteFiles: label must be a text; got 3"),
    "label is not a column": (but('"sick"', '"sik"'), r"north.csv: .* column 'sik'.*mean 'sick'"),
    "no such folder": (but("sites/*.csv", "sights/*.csv"), r"data.sites: there is no .*sights"),
    "wrong fraction": (but("0.25", "1.5"), "data.test_fraction: .* between 0 and 1.*got 1.5"),
    "both kinds of test": (more('test = "sites"'), "test and test_fraction exclude each other"),
    "a text for a list": (more('ignore = "age"'), "data.ignore: .* list of names .*got 'age'"),
    "listed twice": (more('numeric = ["job"]\ncategorical = ["job"]'), "'job' is in both"),
    "unknown column": (more('categorical = ["jobb"]'), "north.csv: categorical lists 'jobb'"),
    "words as numbers": (more('numeric = ["job"]'), r"north.csv: column 'job' must .*got '\w+'"),
    "label ignored": (more('ignore = ["sick"]'), "'sick' is the label"),
    "dates of no parts": (more('dates = {age = ["moon"]}'), "dates must be .*weekday.*moon"),
    "numbers as dates": (more('dates = {age = ["year"]}'), "'age' must hold dates such as"),
    "used and ignored": (more('features = ["age"]\nignore = ["age"]'), "'age' is in ignore and"),
    "no such feature": (more('features = ["agee"]'), "must have a column 'agee'.*mean 'age'"),
    "nothing left": (more('ignore = ["age", "job"]'), "must be a column beside the label"),
    "a partition": (SETTINGS + "[partition]\nscheme = 'iid'\n", "partition: files of sites are"),
    "regression of words": (more("regression = true"), "label 'sick' of a regression must hold"),
    "unknown wrapper": (WRAPPER + 'kind = "privat"', r"wrapper.kind: .*mean 'private'"),
    "wrapper without clip": (WRAPPER + 'kind = "private"\nnoise = 1', "Private needs clip"),
    "negative noise": (WRAPPER + 'kind = "private"\nclip = 1\nnoise = -1', "noise must be .*-1"),
    "too unreliable": (WRAPPER + 'kind = "unreliable"\ndrop = 2', "drop must be .*got 2"),
    "no table": (SETTINGS.replace("\n[data]", 'wrapper = "private"\n[data]'), "must be a table"),
}  # fmt: skip


@pytest.mark.parametrize("text,complaint", MISUSES.values(), ids=MISUSES)
def test_a_mutated_settings_file_gives_one_clear_error(text, complaint, folder, capsys):
    (folder / "s.toml").write_text(text)
    expect_error(["run", "s.toml", "--out", "kept"], complaint, capsys)
    assert not (folder / "kept").exists()


def expect_error(arguments, complaint, capsys):
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and message.count("\n") == 1
    assert message.strip().endswith((".", "?")) and re.search(complaint, message), message


SOUTH = table(24, 1)
FILES = {
    "column missing": (SOUTH.drop("age"), r"south.csv: .*'age' is missing, and .*north.csv has it"),
    "column too many": (SOUTH.with_columns(x=1), r"north.csv: .*'x' is missing, and .*south.csv"),
    "label missing": (SOUTH.drop("sick"), r"south.csv: the table must have a column 'sick'"),
    "words for numbers": (SOUTH.with_columns(age=pl.lit("old")), "south.csv: column 'age' holds w"),
    "no rows": (SOUTH.clear(), r"south.csv: .* at least one row with a label; .* in 0 rows"),
    "no labels": (SOUTH.with_columns(sick=None), "south.csv: .* one row with a label; .* in 24"),
    "labels of another kind": (SOUTH.with_columns(sick=pl.lit(1)), "holds words, and in .*south"),
}  # fmt: skip


@pytest.mark.parametrize("south,complaint", FILES.values(), ids=FILES)
def test_a_file_that_does_not_fit_is_named(south, complaint, folder, capsys):
    south.write_csv("sites/south.csv")
    expect_error(["run", "s.toml"], complaint, capsys)


def test_further_files_that_do_not_fit(folder, capsys):
    run = ["run", "s.toml"]
    (folder / "sites/south.csv").write_text("age,job,sick\n1,cook,yes\n2,cook\n")
    expect_error(run, "south.csv, line 3: every line must have 3 fields; got 2", capsys)
    (folder / "sites/south.csv").unlink()
    keys = [f"patient {i}" for i in range(1400)]
    table(1400, 4).with_columns(job=pl.Series(keys)).write_csv("sites/east.csv")
    (folder / "s.toml").write_text(more('categorical = ["job"]'))
    expect_error(run, "east.csv: .* at most 1000 different ones; 'job' has 1050", capsys)
    (folder / "sites/east.csv").unlink()
    SOUTH.with_columns(age=pl.date(2020, 1, 1)).write_parquet("sites/south.parquet")
    every = ["--set", "data.sites=sites"]
    expect_error([*run, *every], "south.parquet: column 'age' holds dates, and in .*north", capsys)
    SOUTH.write_parquet("sites/north.parquet")
    expect_error([*run, *every], "north.parquet: .* one file for each site; .*north.csv", capsys)
    (folder / "sites/north.parquet").write_bytes(b"not parquet")
    only = ["--set", "data.sites=sites/*.parquet"]
    expect_error([*run, *only], "north.parquet: the table cannot be read", capsys)
    expect_error([*run, "--set", "data.sites=s.toml"], "must be .csv or .parquet", capsys)


def test_test_files_that_do_not_fit(folder, capsys):
    (folder / "s.toml").write_text(but("test_fraction = 0.25", 'test = "test"'))
    run = ["run", "s.toml"]
    expect_error(run, "data.test: there is no CSV or Parquet file at 'test'", capsys)
    (folder / "test").mkdir()
    SOUTH.write_csv("test/souths.csv")
    expect_error(run, "souths.csv: .* no site 'souths'. Did you mean 'south'", capsys)
    (folder / "test/souths.csv").unlink()
    SOUTH.drop("job").write_csv("test/south.csv")
    expect_error(run, "test/south.csv: the table must have a column 'job'", capsys)
    SOUTH.with_columns(sick=pl.lit("maybe")).write_csv("test/south.csv")
    expect_error(run, "every 'sick' must be one of no, yes; got 'maybe'", capsys)


def test_predict_says_what_is_wrong(folder, capsys):
    assert main(["run", "s.toml", "--out", "kept", "--set", "run.rounds=1"]) == 0
    capsys.readouterr()
    SOUTH.drop("age").write_csv("new.csv")
    expect_error(["predict", "kept", "new.csv"], "new.csv: .* have a column 'age'", capsys)
    SOUTH.with_columns(age=pl.lit("old")).write_csv("new.csv")
    expect_error(["predict", "kept", "new.csv"], "'age' must hold numbers; got 'old'", capsys)
    expect_error(["predict", "kept", "absent.csv"], "absent.csv: there is no such file", capsys)
    expect_error(["predict", "sites", "new.csv"], "sites holds no saved result", capsys)
    expect_error(["predict", "kept", "new.csv", "--out", "a.txt"], "end in .csv or", capsys)
    clients = fl.data.from_arrays([(np.eye(2), np.array([0, 1]))])
    fl.simulate(fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), clients, rounds=1).save("o")
    expect_error(["predict", "o", "new.csv"], "were not files of sites", capsys)
    arrays = [{"weights": np.ones((3, 2), np.float32), "bias": np.zeros(2, np.float32)}]
    fl.deploy.Deployed(fl.models.MLP(()), arrays, (3,), ("no", "yes")).save("packed.safetensors")
    expect_error(["predict", "packed.safetensors", "new.csv"], "is a packed model", capsys)
    prepared = fl.load("kept")
    del prepared.about["settings"]
    with pytest.raises(fl.FedloomError, match=r"pass problem="):
        fl.predict(prepared, SOUTH)
    assert fl.predict(prepared, SOUTH, problem=fl.problems.Logistic(intercept=True)).height == 24


def test_what_is_left_out_is_said(folder, capsys):
    keyed = table(40, 0).with_row_index("patient").with_columns(seen=pl.lit("2026-01-31"))
    for name in ("north", "south"):
        keyed.write_csv(f"sites/{name}.csv")
    assert main(["run", "s.toml", "--set", "run.rounds=1"]) == 0
    single = but('sites = "sites/*.csv"', 'path = "sites/north.csv"').replace(
        "test_fraction = 0.25", "[partition]\nscheme = 'iid'\nclients = 2"
    )
    (folder / "s.toml").write_text(single)
    assert main(["run", "s.toml", "--set", "run.rounds=1", "--set", "algorithm.lr=1e-4"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("left out 'patient': most rows have a value of their own") == 2
    assert printed.count("left out 'seen': it holds dates") == 2 and "2026-01-31" not in printed
