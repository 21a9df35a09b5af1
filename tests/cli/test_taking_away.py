"""What is taken away from a run on files of sites: predictions, coefficients, exported models."""

import json

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.experiments.explaining import fitted_alone

SETTINGS = """
[data]
sites = "sites/*.csv"
label = "sick"
ignore = ["id"]

[problem]
kind = "logistic"
intercept = true
l2 = 0.01

[algorithm]
key = "pfedme"
lr = 0.3
penalty = 1.0
outer_lr = 0.3

[run]
rounds = 10
"""


def table(rows, seed, sign=1):
    rng = np.random.default_rng(seed)
    age, job = rng.normal(50, 9, rows), rng.choice(["cook", "nurse"], rows)
    sick = np.where(sign * (age - 50) + 6 * rng.normal(size=rows) > 0, "yes", "no")
    ids = [f"p{i}" for i in range(rows)]
    return pl.DataFrame({"id": ids, "age": age, "job": job.tolist(), "sick": sick.tolist()})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run in which two sites disagree about age."""
    home = tmp_path_factory.mktemp("hospitals")
    (home / "sites").mkdir()
    table(60, 0).write_csv(home / "sites/north.csv")
    table(30, 1, sign=-1).write_csv(home / "sites/south.csv")
    (home / "s.toml").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert main(["run", "s.toml", "--out", "kept"]) == 0
    new = table(5, 3).with_columns(job=pl.Series(["cook", "pilot", "pilot", None, "nurse"]))
    new.write_csv(home / "new.csv")
    return home


@pytest.fixture
def here(run, monkeypatch):
    monkeypatch.chdir(run)
    return run


def predicted(arguments, capsys):
    capsys.readouterr()
    assert main(["predict", *arguments]) == 0
    printed = capsys.readouterr()
    return pl.read_csv(printed.out.encode()), printed.err


def test_predict_keeps_columns_and_counts_what_is_unlike_training(here, capsys):
    said, notes = predicted(["kept", "new.csv", "--keep", "id, age"], capsys)
    assert said.columns[:3] == ["id", "age", "prediction"]
    assert said["id"].to_list() == [f"p{i}" for i in range(5)]
    assert "'job': 2 of 5 rows hold a word that no training row had" in notes
    assert "'job': 1 of 5 rows have no value" in notes and "pilot" not in notes
    assert main(["predict", "kept", "new.csv", "--keep", "idd"]) == 2
    assert "must have a column 'idd'" in capsys.readouterr().err
    clash = pl.read_csv("new.csv").with_columns(prediction=1)
    with pytest.raises(fl.FedloomError, match="'prediction' cannot be kept"):
        fl.predict("kept", clash, keep=["prediction"])
    with pytest.warns(UserWarning) as told:
        fl.predict("kept", "new.csv")
    assert len(told) == 2 and "pilot" not in str([str(one.message) for one in told])


def test_nothing_is_overwritten_and_predict_needs_rows(here, tmp_path, capsys):
    before = (here / "new.csv").read_bytes()
    for out, said in (("new.csv", "new.csv is there already"), ("s.csv", "already")):
        (here / "s.csv").write_text("mine")
        assert main(["predict", "kept", "new.csv", "--out", out]) == 2
        assert said in capsys.readouterr().err
    for verb in (["coefficients", "kept"], ["export", "kept", "--to", "safetensors"]):
        assert main([*verb, "--out", "s.csv"]) == 2
        assert "s.csv is there already" in capsys.readouterr().err
    assert (here / "new.csv").read_bytes() == before and (here / "s.csv").read_text() == "mine"
    none = tmp_path / "none.csv"
    none.write_text("id,age,job\n")
    assert main(["predict", "kept", str(none)]) == 2
    assert "there must be a row to predict" in capsys.readouterr().err


def test_predict_says_where_probabilities_are_none(here, tmp_path, capsys):
    weighed = ["--set", "problem.class_weights=balanced", "--set", "run.rounds=1"]
    assert main(["run", "s.toml", "--out", str(tmp_path / "weighed"), *weighed]) == 0
    for run, expected in (("kept", False), (str(tmp_path / "weighed"), True)):
        _, notes = predicted([run, "new.csv"], capsys)
        assert ("are no probabilities" in str(notes)) == expected


def test_predict_says_at_which_exposure_counts_are(here, tmp_path, capsys):
    files = (("north", 60), ("south", 30))
    for seed, (name, rows) in enumerate(files):
        counted = table(rows, seed).with_columns(years=pl.lit(2.5), sick=pl.lit(1))
        counted.write_csv(tmp_path / f"{name}.csv")
    asked = {"data.sites": str(tmp_path), "data.exposure": "years", "problem.kind": "poisson"}
    options = [part for name, value in asked.items() for part in ("--set", f"{name}={value}")]
    out = ("--set", "problem.exposure=true", "--set", "algorithm.lr=0.1", "--out", "counted")
    assert main(["run", "s.toml", *options, *out]) == 0
    capsys.readouterr()
    assert main(["predict", "counted", str(tmp_path / "south.csv")]) == 0
    told = capsys.readouterr().err
    assert "note: predictions are counts at an exposure of 1; times the exposure" in told
    assert "'years'" in told


def test_predict_takes_the_model_of_a_site(here, capsys):
    hub, north, south = (
        predicted(["kept", "sites/south.csv", *site], capsys)[0]
        for site in ([], ["--site", "north"], ["--site", "south"])
    )
    truth = pl.read_csv("sites/south.csv")["sick"]
    right = {
        name: (said["prediction"] == truth).mean()
        for name, said in {"hub": hub, "north": north, "south": south}.items()
    }
    assert right["south"] > right["hub"] and right["south"] > right["north"]
    own = fl.load("kept").clients.filter(client="south")["accuracy"].item()
    assert right["south"] == pytest.approx(own)
    assert main(["predict", "kept", "new.csv", "--site", "sout"]) == 2
    assert "has no site 'sout'. Did you mean 'south'" in capsys.readouterr().err


def test_a_method_whose_sites_keep_nothing_makes_their_models_anew(here, tmp_path, capsys):
    (here / "adapted.toml").write_text(
        SETTINGS.replace('"pfedme"', '"per_fedavg"').replace("penalty = 1.0\nouter_lr = 0.3\n", "")
    )
    kept, out = str(tmp_path / "adapted"), str(tmp_path / "own.safetensors")
    assert main(["run", "adapted.toml", "--out", kept]) == 0
    said, _ = predicted([kept, "new.csv", "--site", "south"], capsys)
    assert not said.equals(predicted([kept, "new.csv"], capsys)[0])
    assert main(["export", kept, "--to", "safetensors", "--site", "south", "--out", out]) == 0
    assert predicted([out, "new.csv"], capsys)[0].equals(said)


@pytest.mark.parametrize("site", [(), ("--site", "south")], ids=["hub", "site"])
def test_an_exported_model_says_the_same_with_its_preparation(here, site, capsys, tmp_path):
    said, _ = predicted(["kept", "new.csv", *site], capsys)
    sure = said["probability of yes"].to_numpy()
    files = {}
    for kind in ("safetensors", "torch", "onnx"):
        if kind == "onnx":
            pytest.importorskip("onnx", reason="the extra `export` is not installed")
        files[kind] = tmp_path / f"model-{kind}"
        assert main(["export", "kept", "--to", kind, "--out", str(files[kind]), *site]) == 0
    assert "rows of 3 features, gives 1 scores, which are of the kind 'logit'" in (
        capsys.readouterr().out
    )
    again, _ = predicted([str(files["safetensors"]), "new.csv"], capsys)
    np.testing.assert_allclose(again["probability of yes"], sure, rtol=1e-6)
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    session = runtime.InferenceSession(files["onnx"], providers=["CPUExecutionProvider"])
    facts = json.loads(session.get_modelmeta().custom_metadata_map["fedloom"])
    how = fl.preparation.Preparation.from_dict(facts["preparation"])
    x = how.encode("new.csv", pl.read_csv("new.csv")).astype(np.float32)
    np.testing.assert_allclose(session.run(["probabilities"], {"x": x})[0][:, 1], sure, rtol=1e-5)
    assert facts["labels"] == ["no", "yes"] and "north" not in json.dumps(facts)


def test_an_export_lies_in_the_folder_of_its_run(here, capsys):
    assert main(["export", "kept", "--to", "torch", "--site", "north"]) == 0
    assert (here / "kept/exported-north-torch.safetensors").exists()
    assert main(["export", "kept", "--to", "safetensors"]) == 0
    assert fl.load("kept/exported.safetensors").features == (3,)


def test_coefficients_lie_beside_the_result_with_the_signs_of_sites(here, capsys):
    kept = pl.read_csv("kept/coefficients.csv")
    age = kept.filter(feature="age").to_dicts()[0]
    assert age["at north"] > 0 > age["at south"] and (age["positive"], age["negative"]) == (1, 1)
    assert age["odds ratio"] == pytest.approx(np.exp(age["coefficient"]))
    capsys.readouterr()
    assert main(["coefficients", "kept"]) == 0
    printed = capsys.readouterr().out
    assert "odds ratio" in printed and "job=nurse" in printed and "at south" in printed
    assert main(["coefficients", "kept", "--site", "south", "--out", "south.csv"]) == 0
    south = pl.read_csv("south.csv").filter(feature="age")
    assert south["coefficient"].item() == pytest.approx(age["at south"])
    assert main(["coefficients", "kept", "--out", "south.txt"]) == 2
    assert "must end in .csv" in capsys.readouterr().err


def test_models_of_single_sites_show_where_signs_differ(here, capsys, tmp_path):
    assert main(["coefficients", "kept", "--local", "--out", "local.csv"]) == 0
    age = pl.read_csv("local.csv").filter(feature="age").to_dicts()[0]
    assert age["at north"] > 0 > age["at south"]
    south = pl.read_csv("sites/south.csv")
    south.with_columns(sick=pl.lit("no")).write_csv("sites/south.csv")
    try:
        assert main(["run", "s.toml", "--out", str(tmp_path / "one")]) == 0
        assert main(["coefficients", str(tmp_path / "one"), "--local", "--out", "other.csv"]) == 0
    finally:
        south.write_csv("sites/south.csv")
    assert "rows of south lack one of the classes" in capsys.readouterr().err
    assert pl.read_csv("other.csv")["at south"].null_count() == 4


def test_a_site_without_rows_of_a_class_has_no_model_alone():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), np.arange(12) % 3
    clients = fl.data.from_arrays([(x, y), (x, y % 2)], names=("all", "two of three"))
    problem = fl.problems.Multinomial(l2=0.1, intercept=True)
    fits = fitted_alone(problem, clients)
    assert fits["all"] is not None and fits["two of three"] is None


def test_the_report_shows_coefficients(here):
    assert main(["report", "kept", "--out", "report.html"]) == 0
    page = (here / "report.html").read_text()
    assert "Coefficients" in page and "job=nurse" in page and "odds ratio" in page.lower()
