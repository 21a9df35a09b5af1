"""What a report reads from folders: which runs stand together, and what the table says of them."""

import dataclasses
import json
import shutil
import tomllib

import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.reports.pictures import draw
from fedloom.reports.reading import read
from fedloom.reports.sections import sections
from fedloom.reports.summary import summarise
from reports import studies

SETTINGS = """
[data]
name = "iris"

[partition]
scheme = "iid"
clients = 3

[problem]
kind = "multinomial"

[[algorithm]]
key = "fedavg"
lr = 0.1

[[algorithm]]
key = "fedprox"
lr = 1e-4
mu = 0.1

[run]
rounds = 6
eval_every = 3

[compare]
seeds = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    (root / "iris.toml").write_text(SETTINGS)
    compare = ["compare", str(root / "iris.toml"), "--out", str(root / "both")]
    assert main([*compare, "--set", "run.rounds=9"]) == 0
    studies.sparse(root / "sparse")
    return root


def test_seeds_of_a_method_stand_together(folder):
    (study,) = read([folder / "both"])
    assert {name: len(runs) for name, runs in study.methods.items()} == {"fedavg": 2, "fedprox": 2}
    assert study.title == "fedavg and fedprox on iris, 3 clients"
    assert study.commands == [f"fedloom compare {folder / 'both' / 'settings.toml'}"]
    assert tomllib.loads(study.settings) == tomllib.loads(SETTINGS) | {
        "run": {"rounds": 9, "eval_every": 3}
    }


def test_a_seed_counts_once(folder, tmp_path):
    """The same runs copied, or named twice, are no more seeds."""
    copy = tmp_path / "copy"
    shutil.copytree(folder / "both", copy)
    for given in ([folder / "both", copy], [copy, copy]):
        (study,) = read(given)
        assert len(study.methods) == 4
        assert all(
            sorted(run.about["seed"] for run in runs) == [0, 1] for runs in study.methods.values()
        )


def test_runs_on_other_problems_are_other_studies(folder):
    titles = [study.title for study in read([folder / "both", folder / "sparse"])]
    assert titles == ["fedavg and fedprox on iris, 3 clients", "sparse: DecoupledProx, 4 clients"]


def test_a_single_run_names_its_method_and_what_was_changed(tmp_path):
    first, second = SETTINGS.index("[[algorithm]]"), SETTINGS.rindex("[[algorithm]]")
    one = SETTINGS[:first] + "[algorithm]" + SETTINGS[second:].removeprefix("[[algorithm]]")
    (tmp_path / "one.toml").write_text(one)
    out = str(tmp_path / "one")
    assert main(["run", str(tmp_path / "one.toml"), "--out", out, "--set", "run.rounds=3"]) == 0
    (study,) = read([out])
    assert list(study.methods) == ["FedProx"] and study.title == "FedProx on iris, 3 clients"
    assert study.commands == [f"fedloom run {out}/settings.toml"]
    assert main(["report", out, "--title", "Iris <3"]) == 0
    assert "<h1>Iris &lt;3</h1>" in (tmp_path / "one" / "report.html").read_text()


def test_titles_name_methods_data_and_clients_in_words(tmp_path):
    problem, made = fl.problems.Logistic(), studies.clients()
    inside = fl.algorithms.FedAvg(lr=0.1)
    wrapped = fl.algorithms.Unreliable(inner=inside, drop=0.5)
    fl.simulate(wrapped, problem, made, rounds=1).save(tmp_path / "lossy")
    few = {name: inside for name in ("a", "b", "c")}
    fl.compare(few, problem, made, rounds=1, out=tmp_path / "few")
    fl.compare(few | {"d": inside}, problem, made, rounds=1, out=tmp_path / "many")
    titles = [read([tmp_path / name])[0].title for name in ("lossy", "few", "many")]
    assert titles == [
        *("lossy: FedAvg, 4 clients", "few: a, b and c, 4 clients", "many: 4 methods, 4 clients")
    ]


def test_studies_of_one_title_are_numbered(tmp_path):
    (tmp_path / "it.toml").write_text(SETTINGS)
    for l2 in ("0.0", "0.1"):
        words = ["--set", f"problem.l2={l2}", "--set", "run.rounds=1", "--set", "compare.seeds=1"]
        out = str(tmp_path / f"l2-{l2}")
        assert main(["compare", str(tmp_path / "it.toml"), *words, "--out", out]) == 0
    titles = [study.title for study in read([tmp_path / "l2-0.0", tmp_path / "l2-0.1"])]
    usual = "fedavg and fedprox on iris, 3 clients"
    assert titles == [f"{usual} (1)", f"{usual} (2)"]


def test_methods_of_one_name_with_other_parameters_are_told_apart(tmp_path):
    for name, lr in (("slow", 0.01), ("fast", 0.1)):
        method = fl.algorithms.FedAvg(lr=lr)
        run = fl.simulate(method, fl.problems.Logistic(), studies.clients(), rounds=1)
        run.save(tmp_path / name)
    (study,) = read([tmp_path / "slow", tmp_path / "fast"])
    assert list(study.methods) == ["FedAvg (slow)", "FedAvg (fast)"]


def test_the_best_values_are_marked(folder):
    (study,) = read([folder / "both"])
    summary = summarise(study)
    assert summary.columns[:3] == [
        *("Accuracy, mean over clients", "Accuracy, worst client", "Accuracy, all rows")
    ]
    marks = {name: [cell.best for cell in cells] for name, _, cells in summary.rows}
    loss = summary.columns.index("Loss, mean over clients")
    assert marks["fedavg"][loss] and not marks["fedprox"][loss]  # the latter hardly moves
    assert not any(row[-1] or row[-2] or row[-3] for row in marks.values())
    assert "2 methods on 3 clients, 9 rounds, 2 seeds, one division. fedavg has" in summary.sentence


def test_a_run_that_ended_early_is_remarked(tmp_path):
    wild = fl.algorithms.FedAvg(lr=1e30)
    data = fl.data.from_arrays([([[1.0], [2.0]], [0.5, 1.5])] * 2)
    with pytest.raises(fl.DivergedError) as caught:
        fl.simulate(wild, fl.problems.LeastSquares(), data, rounds=20)
    caught.value.result.save(tmp_path / "wild")
    (study,) = read([tmp_path / "wild"])
    assert summarise(study).rows[0][1] == "diverged"
    json.dumps([data for _, data in sections(study)], allow_nan=False)


def test_a_metric_that_was_not_measured_leaves_its_cell_empty(tmp_path):
    for name, metrics in (("a", ("loss",)), ("b", ("loss", "objective"))):
        for seed in (0, 1):
            method = fl.algorithms.FedAvg(lr=0.1)
            run = fl.simulate(
                method, fl.problems.Logistic(), studies.clients(), rounds=1, metrics=metrics,
                seed=seed,
            )  # fmt: skip
            run.save(tmp_path / name / f"seed-{seed}")
    (study,) = read([tmp_path])
    summary = summarise(study)
    cells = {name: cells[summary.columns.index("Objective")] for name, _, cells in summary.rows}
    assert cells["a"].text == "n/a" and cells["b"].spread
    assert not cells["a"].best and not cells["b"].best  # there is nothing to compare with
    assert {path.stem for path in draw([study], tmp_path / "p")} >= {"loss", "objective"}


def test_numbers_of_the_pictures_are_those_of_the_runs(folder):
    (study,) = read([folder / "both"])
    made = {section.title: data for section, data in sections(study)}
    series = made["Progress"]["series"][0]
    runs = study.methods["fedavg"]
    last = [run.final["loss"] for run in runs]
    assert series["y"]["loss"]["mean"][-1] == pytest.approx(sum(last) / 2, rel=1e-5)
    assert series["y"]["loss"]["high"][-1] == pytest.approx(max(last), rel=1e-5)
    sent = runs[0].final["bytes_up"] + runs[0].final["bytes_down"]
    assert series["x"]["round"] == [0, 3, 6, 9] and series["x"]["bytes"][-1] == sent
    rows = [sum(layer["counts"]) for layer in made["Who holds what"]["layers"]]
    assert sum(rows) == 150 and len(rows) == 3
    json.dumps(made, allow_nan=False)


def test_a_run_folder_knows_the_sizes_of_personal_models(tmp_path):
    own = (fl.models.MLP((4,)), fl.models.MLP((8,)))
    problem = fl.problems.Personal(fl.models.MLP((2,)), own)
    options = {"rounds": 1, "metrics": ("accuracy",)}
    methods = {"quped": fl.algorithms.QuPeD(lr=0.1)}
    fl.compare(methods, problem, studies.clients(2), out=tmp_path, **options)
    (study,) = read([tmp_path])
    made = {section.title: data for section, data in sections(study)}
    (series,) = made["Sizes of the clients' models"]["series"]
    # 6 features, 2 classes: weights and biases of one hidden layer, 4 bytes each
    assert series["y"] == [4 * (6 * h + h + 2 * h + 2) for h in (4, 8)]


def test_a_vertical_comparison_shows_what_parties_hold(tmp_path):
    settings = """
    data = { name = "diabetes" }
    partition = { scheme = "features", parties = 2 }
    problem = { kind = "vertical", loss = "squared", l2 = 1.0 }
    algorithm = [{ key = "egvfl" }, { key = "vertical_gd" }]
    run = { rounds = 4, eval_every = 2, metrics = ["relative_gap", "residual"] }
    """
    (tmp_path / "v.toml").write_text(settings)
    assert main(["compare", str(tmp_path / "v.toml"), "--out", str(tmp_path / "v")]) == 0
    (study,) = read([tmp_path / "v"])
    made = {section.title: data for section, data in sections(study)}
    names = [metric["name"] for metric in made["Distance to the solution"]["metrics"]]
    assert names == ["relative_gap", "residual"] and "Progress" not in made
    assert made["Who holds what"]["layers"] == [{"name": "features", "counts": [5, 5]}]
    assert made["Who holds what"]["unit"] == "features"


def test_pictures_for_papers(folder, tmp_path, capsys):
    out = ["--out", str(tmp_path / "r.html"), "--pictures", str(tmp_path / "p")]
    assert main(["report", str(folder / "sparse"), *out]) == 0
    files = {path.name for path in (tmp_path / "p").iterdir()}
    assert {"gap.png", "gap.svg", "accuracy-worst.svg", "sparsity.png"} <= files
    assert (tmp_path / "p" / "gap.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize("name", ["absent", ""])
def test_a_folder_without_results_is_refused(name, tmp_path, capsys):
    assert main(["report", str(tmp_path / name)]) == 2
    assert "holds no saved result. Give a folder that" in capsys.readouterr().err


def test_a_run_over_real_sites_says_how_it_was_made(tmp_path):
    method, problem = fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic()
    run = fl.simulate(method, problem, studies.clients(), rounds=2, eval_every=1)
    about = {**run.about, "engine": "federation", "alignment": "60 people known to all"}
    rows = [{"sites": 4.0, **row} for row in run.rows]
    dataclasses.replace(run, about=about, rows=rows).save(tmp_path / "run")
    (tmp_path / "run" / "settings.toml").write_text(SETTINGS)
    (study,) = read([tmp_path / "run"])
    assert study.commands == [f"fedloom submit {tmp_path}/run/settings.toml --kit KIT"]
    summary = summarise(study)
    assert "Sites" not in summary.columns  # how many were there says nothing of the model
    assert summary.sentence.endswith("60 people known to all.")
