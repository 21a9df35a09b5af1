"""The command line as a user meets it: what it prints, what it leaves, how it exits."""

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.wrappers import WRAPPERS
from fedloom.cli import explain
from fedloom.cli.main import main
from fedloom.cli.output import show_table
from fedloom.experiments import folder, running, tour
from fedloom.experiments import settings as settings_files
from fedloom.metrics.catalogue import CATALOGUE as METRICS
from fedloom.metrics.ready import needing_scores
from fedloom.parameters import parameters_of

pytestmark = pytest.mark.usefixtures("described_once")
ROOT = Path(__file__).parents[2]
SETTINGS = """
[data]
name = "iris"

[partition]
scheme = "iid"
clients = 3

[problem]
kind = "multinomial"

[algorithm]
key = "fedavg"
lr = 0.1
cohort = 2

[run]
rounds = 6
eval_every = 3
"""


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "iris.toml"
    path.write_text(SETTINGS)
    return path


def test_a_table_shows_brackets_as_they_are(capsys):
    show_table([{"advice": "pip install 'fedloom[plot]'"}], title="lists [of] values")
    printed = capsys.readouterr().out
    assert "'fedloom[plot]'" in printed and "lists [of] values" in printed


def test_run_prints_a_table_and_keeps_the_result(settings, tmp_path, capsys):
    assert main(["run", str(settings), "--out", str(tmp_path / "kept")]) == 0
    printed = capsys.readouterr().out
    assert "accuracy" in printed and "in 6 rounds" in printed and "kept in" in printed
    result = fl.load(tmp_path / "kept")
    assert result.history["round"].to_list() == [0, 3, 6]
    assert (tmp_path / "kept" / "settings.toml").read_text() == SETTINGS
    kept = json.loads((tmp_path / "kept" / "settings.json").read_text())
    assert kept["algorithm"][0]["lr"] == 0.1 and kept["run"]["eval_every"] == 3
    assert result.about["versions"]["fedloom"] == fl.__version__


def test_what_runs_from_its_source_knows_its_versions(monkeypatch):
    def installed(name: str) -> str:
        if name == "fedloom":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", installed)
    found = folder.versions()
    assert found["fedloom"] == fl.__version__ and found["jax"] == version("jax")


def test_run_in_json_with_overrides(settings, tmp_path, capsys):
    arguments = ["run", str(settings), "--out", str(tmp_path / "o"), "--format", "json"]
    arguments += ["--set", "run.rounds=2", "--set", "algorithm.key=scaffold", "--set", "run.seed=4"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "done" and document["final"]["round"] == 2
    assert [row["round"] for row in document["history"]] == [0, 2]
    assert len(document["clients"]) == 3
    assert "Scaffold" in fl.load(tmp_path / "o").about["algorithm"]


def test_divergence_exits_with_1_and_keeps_the_last_good_state(settings, tmp_path, capsys):
    out = tmp_path / "wild"
    wild = ["--set", "problem.kind=least_squares", "--set", "data.name=diabetes"]
    assert main(["run", str(settings), "--out", str(out), "--set", "algorithm.lr=1e30", *wild]) == 1
    assert "diverged: FedAvg diverged: the hub's state is not finite" in capsys.readouterr().err
    assert fl.load(out).status == "diverged"


def but(old, new):
    assert old in SETTINGS
    return SETTINGS.replace(old, new)


MISUSES = {
    "no such file": ("", "absent.toml: there is no such settings file"),
    "not toml": ("[data\nname=", "is not valid TOML: .*line 1"),
    "unknown table": (SETTINGS + "[alogrithm]\n", r"line \d+, alogrithm: .*mean 'algorithm'\?"),
    "missing table": ("[data]\nname='iris'\n", r"needs a table \[problem\]"),
    "unknown method": (but("fedavg", "fedavgg"), r"line 13, algorithm.key: .*mean 'fedavg'"),
    "unknown parameter": (but("lr =", "lrr ="), r"line 14, algorithm.lrr: is not a param"),
    "missing parameter": (but("lr = 0.1\n", ""), r"line 12, algorithm: FedAvg needs lr"),
    "negative rate": (but("0.1", "-0.1"), r"line 14, algorithm.lr: FedAvg: lr must be"),
    "wrong type": (but("0.1", "'fast'"), r"line 14, algorithm.lr: .*got 'fast'"),
    "wrong rounds": (but("rounds = 6", "rounds = 0"), r"line 18, run.rounds: .*got 0"),
    "unknown data": (but("iris", "irris"), "irris"),
    "unknown scheme": (but("iid", "iidd"), r"line 6, partition.scheme: .*'iid'\?"),
    "cohort too large": (but("cohort = 2", "cohort = 9"), "cohort must be .*got 9"),
    "too many clients": (but("clients = 3", "clients = 999"), "there are 999 clients"),
    "wrong labels": (but("multinomial", "logistic"), "needs labels of 2 classes"),
}


@pytest.mark.parametrize("text,complaint", MISUSES.values(), ids=MISUSES)
def test_misuse_exits_with_2_and_says_what_to_do(text, complaint, tmp_path, capsys):
    path = tmp_path / ("settings.toml" if text else "absent.toml")
    if text:
        path.write_text(text)
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and message.strip().endswith((".", "?"))
    assert re.search(complaint, message), message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("override", ["lr=0.1", "algorithm.lr", "=3", "algorithm.lr.x=3"])
def test_an_override_that_makes_no_sense_is_refused(override, settings, capsys):
    assert main(["run", str(settings), "--set", override]) == 2
    assert "--set" in capsys.readouterr().err


@pytest.mark.parametrize(
    "override,said",
    [
        (
            "algorithm.lr=-1",
            "--set algorithm.lr=-1: FedAvg: lr must be a number > 0, or a schedule; got -1",
        ),
        ("algorithm.lrr=1", "--set algorithm.lrr=1: is not a parameter of FedAvg"),
        ("algorithm.key=fedavgg", "--set algorithm.key=fedavgg: must be a known key"),
        ("algorithm.key=feddr", "--set algorithm.key=feddr: FedDR needs step"),
        ("run.rounds=0", "--set run.rounds=0: "),
        ('problem.regulariser={kind="l2"}', ", kind: must be a known key; got 'l2'"),
        ("partition.clients=0", "--set partition.clients=0: "),
    ],
)
def test_what_the_command_line_sets_is_blamed_on_it_and_on_no_line(
    override, said, settings, tmp_path, capsys
):
    assert main(["run", str(settings), "--set", override, "--out", str(tmp_path / "o")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: --set ") and said in message and "line" not in message


def test_all_missing_parameters_are_told_at_once(tmp_path, capsys):
    path = tmp_path / "s.toml"
    path.write_text(SETTINGS.replace('"fedavg"\nlr = 0.1', '"feddr"'))
    assert main(["run", str(path)]) == 2
    message = capsys.readouterr().err
    assert "FedDR needs step: " in message and "; and lr: " in message
    assert message.strip().endswith("Add step = ... and lr = ...")


def test_a_typo_of_a_verb_is_answered_with_the_verb(capsys):
    assert main(["comapre", "x.toml"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: there is no verb 'comapre'. Did you mean 'compare'")


def test_ctrl_c_while_a_verb_is_loaded_ends_in_a_word(monkeypatch, capsys):
    def load(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", load)
    assert main(["run", "settings.toml"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    "what", ["algorithms", "wrappers", "aggregators", "problems", "datasets", "partitions"]
)
def test_lists(what, capsys):
    assert main(["list", what]) == 0
    assert "key" in capsys.readouterr().out
    assert main(["list", what, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(row["key"] for row in rows)
    if what == "algorithms":
        assert [row["key"] for row in rows] == list(CATALOGUE)
        assert all(row["family"] and row["paper"] for row in rows)


@pytest.mark.parametrize("key", CATALOGUE)
def test_explain_says_what_a_method_solves_costs_and_changes(key, capsys):
    assert main(["explain", key]) == 0
    text = capsys.readouterr().out
    for part in ("Solves", "Parameters", "Messages of a round", "Differs from the paper"):
        assert part in text
    assert main(["explain", key, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    names = [p.name for p in parameters_of(CATALOGUE[key].cls)]
    assert document["messages"] and [row["name"] for row in document["parameters"]] == names


def test_explain_says_what_a_wrapper_does(capsys):
    for key in WRAPPERS:
        assert main(["explain", key]) == 0
        assert "a wrapper" in capsys.readouterr().out
    assert main(["explain", "robust", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["parameters"]] == ["aggregator"]


def test_metrics_are_listed_and_explained(capsys):
    assert main(["list", "metrics", "--format", "json"]) == 0
    listed = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(METRICS)
    assert listed["f1"]["better"] == "larger" and listed["rmse"]["problems"] == "regression"
    assert listed["loss"]["problems"] == "any but saddle problems and cox"  # which refuse it
    assert "loss" not in {**fl.problems.Cox().metrics(), **fl.problems.Bilinear().metrics()}
    assert "t_i < t_j, or t_i = t_j, j censored" in METRICS["concordance"].formula
    for key in METRICS:
        assert main(["explain", key]) == 0
        told = capsys.readouterr().out
        assert METRICS[key].formula in told and "Over a network: " in told
        needs_scores = "scores = true" in told
        assert needs_scores == bool(needing_scores([key]))
    assert main(["explain", "auc", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {
        "problems",
        "metrics",
    }  # one key, two kinds
    assert main(["explain", "r2", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["better"] == "larger"


def test_explain_of_an_unknown_method_suggests_one(capsys):
    assert main(["explain", "scafold"]) == 2
    assert "Did you mean 'scaffold'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "key,down,up",
    [
        ("fedavg", 100, 100),
        ("fedprox", 100, 100),
        ("scaffold", 200, 200),
        ("fedmid", 100, 100),
        ("feddualavg", 101, 100),
        ("fast_fedda", 201, 201),
        ("feddr", 100, 100),
        ("fedadmm", 100, 100),
    ],
)
def test_messages_have_the_sizes_of_the_paper(key, down, up, capsys):
    main(["explain", key, "--format", "json"])
    messages = json.loads(capsys.readouterr().out)["messages"]
    assert (sum(m["down"] for m in messages), sum(m["up"] for m in messages)) == (down, up)


def test_decoupled_prox_sends_the_model_once_each_way(capsys):
    """With everyone taking part, as the paper has it; a cohort is sent the result once more."""
    clients = fl.data.from_arrays([(np.zeros((8, 100)), np.arange(8) % 2)] * 10)
    result = fl.simulate(
        fl.algorithms.DecoupledProx(lr=0.1), fl.problems.Logistic(), clients, rounds=3
    )
    assert result.final["bytes_up"] == result.final["bytes_down"] == 3 * 10 * 100 * 4


@pytest.mark.parametrize(
    "key,exchange,condition",
    [
        ("decoupled_prox", "settle", "where cohort is set"),
        ("egvfl_compressed", "refresh_references", "with probability refresh"),
        ("egvfl_error_feedback", "refresh_references", "with probability refresh"),
        ("egvfl_partial", "refresh_references", "with probability refresh"),
        ("egvfl_coordinate", "refresh_references", "with probability refresh"),
    ],
)
def test_explain_says_when_an_exchange_takes_place(key, exchange, condition):
    said = [message["method"] for message in explain.describe(CATALOGUE[key])["messages"]]
    assert f"{exchange} ({condition})" in said
    assert all("(" not in method for method in said if not method.startswith(exchange))


def test_explain_says_which_settings_ask_for_a_part_of_a_message():
    (message,) = explain.describe(CATALOGUE["codasca"])["messages"]
    assert message["what goes down"].endswith(
        "control.y, reference (where gamma is set), rate (where stage_rounds is set)"
    )


def test_the_installed_command_knows_its_version_and_misuse():
    fedloom = Path(sys.executable).with_name("fedloom")
    version = subprocess.run([fedloom, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"fedloom {fl.__version__}\n"
    assert subprocess.run([fedloom, "ride"], capture_output=True).returncode == 2


def test_demo_shows_a_stop_and_ends_with_a_page(tmp_path, monkeypatch, capsys):
    """One stop of the tour; `make test-thorough` makes the whole of it."""
    monkeypatch.setattr(tour, "stops", lambda: [tour.composite()])
    assert main(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "A sparse model over 20 unlike clients" in printed and "report.html" in printed
    assert (tmp_path / "composite.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    assert "A tour of fedloom" in page and "DecoupledProx has the best optimality:" in page
    assert fl.load(tmp_path / "composite" / "DecoupledProx" / "seed-0").final["optimality"] < 1e-6


@pytest.mark.thorough
def test_demo_tours_all_families_and_ends_with_a_page(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    stops = "hospitals averaging composite minimax robust personal vertical".split()
    assert "switzerland" in printed and "10 seeds, each with its own division; mean ±" in printed
    assert "3 seeds, one division; mean ± sample standard deviation" in printed
    losses = {
        name: np.mean([fl.load(place).clients["loss"] for place in folder.iterdir()], axis=0)
        for name in ("each alone", "QuPeD")
        for folder in (tmp_path / "hospitals" / name,)
    }
    assert (losses["QuPeD"] < losses["each alone"]).all()  # every hospital gains
    slow, quick = (
        [fl.load(place).history for place in sorted((tmp_path / "averaging" / name).iterdir())]
        for name in ("FedAvg", "SCAFFOLD")
    )
    for late, early in zip(slow, quick, strict=True):  # further in a third of the rounds
        late, early = late.filter(round=60).row(0, named=True), early.filter(round=20)
        early = early.row(0, named=True)
        assert early["objective"] < late["objective"]
        assert early["accuracy_worst"] > late["accuracy_worst"]
    for method in ("SCAFFOLD", "DecoupledProx", "FFMDR", "DRFA", "QuPeD, 2 bits", "EGVFL"):
        assert method in printed
    for stop in stops:
        assert (tmp_path / f"{stop}.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    assert "A tour of fedloom" in page and "QuPeD, 2 bits" in page
    # What README says of the families is what the page says of its runs.
    for said in (
        *("QuPeD has the best loss:", "FedAvg has the best loss for the worst client:"),
        *("SCAFFOLD has the best objective:", "SCAFFOLD has the best accuracy for the worst"),
        *("DecoupledProx has the best optimality:", "FFMDR has the best AUC:"),
        *("DRFA has the best accuracy for the worst", "QuPeD, 2 bits has the best accuracy:"),
        "EGVFL has the best relative gap:",
    ):
        assert said in page, said
    assert fl.load(tmp_path / "composite" / "DecoupledProx" / "seed-0").final["optimality"] < 1e-6


def test_the_example_settings_run(tmp_path):
    path = ROOT / "examples" / "digits.toml"
    assert main(["run", str(path), "--out", str(tmp_path / "o"), "--set", "run.rounds=3"]) == 0


def test_errors_with_words_of_others_drive_no_terminal(capsys):
    assert main(["predict", "\x1b]0;owned\x07", "new.csv"]) == 2
    said = capsys.readouterr().err
    assert "owned" in said and said.replace("\n", "").isprintable()


def test_runs_within_a_second_have_folders_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(SETTINGS)
    several = [running.default_folder(settings_files.read(Path("a.toml"))) for _ in range(5)]
    assert len(set(several)) == 5 and all(
        re.match(r"a-\d{8}-\d{6}-\d{6}$", f.name) for f in several
    )
    for _ in range(2):
        assert main(["run", "a.toml", "--set", "run.rounds=1"]) == 0
    assert len(list(Path("runs").iterdir())) == 2
