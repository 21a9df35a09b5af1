"""`fedloom new`: what it writes is valid, and can be run at once."""

import builtins
import itertools
import sys
import tomllib

import jsonschema
import numpy as np
import polars as pl
import pytest

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.main import main
from fedloom.exchange.transcript import transcript
from fedloom.experiments import settings
from fedloom.experiments.beginnings import COMPARED
from fedloom.experiments.schema import schema
from fedloom.federation.job import check_sendable, job_of
from fedloom.federation.provisioning import read_project
from fedloom.population import assemble
from fedloom.rounds.given import check_fit
from tiers import in_turn

VALIDATOR = jsonschema.Draft202012Validator(schema())


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sites(here):
    rng = np.random.default_rng(0)
    (here / "sites").mkdir()
    for name in ("north", "south", "west"):
        age = rng.normal(50, 10, 40).round(1)
        frame = pl.DataFrame({"age": age, "id": range(40), "y": (age > 50).tolist()})
        frame.write_csv(here / "sites" / f"{name}.csv")
    return here


def valid(path):
    VALIDATOR.validate(tomllib.loads(path.read_text()))
    chosen = settings.read(path)
    for method in chosen.algorithms.values():
        check_fit(method, chosen.problem)
    assert path.read_text().count("#") >= 4
    return chosen


FAMILIES = [
    (family, data)
    for family, data in itertools.product(COMPARED, ("a9a", "digits", "diabetes", "synthetic"))
    if not (family in ("minimax", "personal") and data == "diabetes")
    and not (family == "vertical" and data == "synthetic")
]


@pytest.mark.parametrize("family,data", FAMILIES)
@pytest.mark.parametrize("kind", ["run", "compare", "sweep"])
def test_a_settings_file_for_every_family_and_kind_of_data_is_valid(kind, family, data, here):
    assert main(["new", kind, "made/first.toml", "--data", data, "--family", family]) == 0
    chosen = valid(here / "made" / "first.toml")
    assert len(chosen.algorithms) == (1 if kind == "run" else len(COMPARED[family]))
    assert bool(chosen.over) == (kind == "sweep")


def test_a_file_for_files_of_sites_runs(sites, capsys):
    assert main(["new", "run", "--sites", "sites/*.csv", "--label", "y", "--method", "fedavg"]) == 0
    assert valid(sites / "run.toml").problem.__class__.__name__ == "Logistic"
    assert main(["run", "run.toml", "--set", "run.rounds=2", "--out", "o"]) == 0
    assert main(["new", "run", "--sites", "sites/*.csv", "--label", "y"]) == 2
    assert "run.toml is there already" in capsys.readouterr().err
    assert main(["new", "run", "x.toml", "--sites", "sites/*.csv"]) == 2
    assert "which column is predicted (--label)" in capsys.readouterr().err


def test_a_comparison_runs(here):
    assert main(["new", "compare", "--data", "iris", "--family", "averaging"]) == 0
    short = ["--set", "run.rounds=2", "--set", "compare.seeds=1", "--set", "partition.clients=3"]
    assert main(["compare", "compare.toml", *short, "--out", "o"]) == 0


def test_a_method_keeps_the_laws_and_is_named_in_settings(here, capsys):
    assert main(["new", "method", "my_method.py"]) == 0
    assert "`fedloom check my_method.py:MyMethod`" in capsys.readouterr().out
    assert main(["check", "my_method.py:MyMethod", "--law", "engines", "--law", "absence"]) == 0
    assert main(["new", "method", "my method.txt"]) == 2
    assert "a file like my_method.py" in capsys.readouterr().err


BUNDLED = ("digits", "diabetes", "synthetic", "breast_cancer", "heart", "iris", "wine")
SHORT = ["--set", "run.rounds=2", "--set", "run.eval_every=2"]


def written(kind, data, *words):
    """What `new` wrote for a bundled dataset; None where it refused in a sentence."""
    status = main(["new", kind, "made.toml", "--data", data, *words])
    assert status in (0, 2)
    return settings.read("made.toml") if status == 0 else None


@pytest.mark.parametrize("data", in_turn(BUNDLED, ["digits"]))
def test_every_method_gets_a_file_that_runs_or_a_refusal(data, here, capsys):
    refused = set()
    for key, method in CATALOGUE.items():
        (here / "made.toml").unlink(missing_ok=True)
        chosen = written("run", data, "--method", key)
        if chosen is None:
            assert capsys.readouterr().err.startswith("error: new: ")
            refused.add(method.family)
            continue
        check_fit(chosen.algorithm, chosen.problem)
        batch = chosen.options()["batch_size"]
        # One round, of which only the shapes are computed.
        transcript(chosen.algorithm, assemble(chosen.problem, chosen.clients(), batch, "float32"))
    numbers = {"minimax", "personal"}
    assert refused == {"diabetes": numbers, "synthetic": {"vertical"}}.get(data, {"vertical"})


RUNS = [f"{data} {family}" for data in BUNDLED for family in COMPARED]


@pytest.mark.parametrize("case", in_turn(RUNS, ["digits minimax"]))
def test_every_family_gets_a_file_that_runs_or_a_refusal(case, here, capsys):
    data, family = case.split()
    if written("compare", data, "--family", family) is None:
        assert capsys.readouterr().err.startswith("error: new: ")
        return
    assert main(["compare", "made.toml", *SHORT, "--set", "compare.seeds=1", "--out", "o"]) == 0


@pytest.mark.parametrize(
    "methods,refusal",
    [
        (("pfedme", "fedavg"), None),
        (("local_sgda", "fedavg"), "FedAvg is for smooth problems"),
        (("fedavg", "local_sgda"), "FedAvg is for smooth problems"),
        (("fedmid", "fedavg"), None),
        (("fedavg", "fedmid"), "FedAvg takes no regulariser"),
        (("vertical_gd", "fedavg"), "the family vertical is for parties"),
        (("vertical_cg", "vertical_gd"), "VerticalCG needs the squared loss"),
    ],
)
def test_methods_that_have_no_problem_in_common_are_refused(methods, refusal, here, capsys):
    words = [word for key in methods for word in ("--method", key)]
    assert main(["new", "compare", "it.toml", "--data", "digits", *words]) == (2 if refusal else 0)
    assert (refusal or "") in capsys.readouterr().err
    assert (here / "it.toml").exists() == (refusal is None)


def test_a_federation_has_a_project_and_a_run_that_can_be_sent(here, capsys):
    assert main(["new", "federation", "hospitals", "--sites", "a,b,c,d", "--label", "ill"]) == 0
    project = read_project(here / "hospitals" / "project.toml")
    assert project.sites == ("a", "b", "c", "d") and project.name == "hospitals"
    chosen = valid(here / "hospitals" / "run.toml")
    check_sendable(chosen.tables, chosen.place)
    job = job_of(chosen, "run")
    assert job.tables["algorithm"]["key"] in project.policy["methods"]
    assert job.tables["problem"]["kind"] in project.policy["problems"]
    assert job.tables["data"]["label"] in project.policy["labels"]
    assert "fedloom provision hospitals/project.toml" in capsys.readouterr().out


def test_on_a_terminal_it_asks(here, monkeypatch):
    answers = iter(["iris", "averagng", "robust", "run", "heart", "robust"])
    monkeypatch.setattr(builtins, "input", lambda question: next(answers))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    assert main(["new", "run", "asked.toml"]) == 0
    chosen = valid(here / "asked.toml")
    assert list(chosen.algorithms) == ["drfa"] and chosen.tables["data"]["name"] == "iris"
    assert main(["new"]) == 0  # asks for the kind, too
    chosen = valid(here / "run.toml")  # four hospitals stay four, of two classes
    assert chosen.tables["partition"] == {"scheme": "client", "test_fraction": 0.2}
    assert chosen.tables["problem"]["kind"] == "logistic"


def test_questions_that_are_ended_write_nothing(here, monkeypatch, capsys):
    def ended(question):
        raise EOFError

    monkeypatch.setattr(builtins, "input", ended)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    assert main(["new", "run", "asked.toml"]) == 2
    assert "nothing was written" in capsys.readouterr().err and not (here / "asked.toml").exists()


@pytest.mark.parametrize(
    "words,said",
    [
        (["run", "--data", "digitz"], "Did you mean 'digits'"),
        (["run", "--method", "scafold"], "Did you mean 'scaffold'"),
        (["run", "--data", "a9a", "--sites", "s"], "--data and --sites exclude each other"),
        (["run", "--method", "fedavg", "--method", "scaffold"], "Use `new compare`"),
        (["run", "--data", "diabetes", "--family", "minimax"], "predicts classes"),
    ],
)
def test_misuse_is_answered(words, said, capsys):
    assert main(["new", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("beside", "fused"), [("split_training", True), ("vertical_gd", False)])
def test_split_training_gets_networks_unless_another_method_cannot_have_them(beside, fused, here):
    words = ["new", "compare", "it.toml", "--data", "breast_cancer"]
    assert main([*words, "--method", "ef_vfl", "--method", beside]) == 0
    problem = valid(here / "it.toml").problem
    assert problem.mean and (problem.fusion is not None) == fused


def test_a_personal_method_among_others_says_why_all_have_a_network(here):
    methods = ["--method", "fedavg", "--method", "quped"]
    assert main(["new", "compare", "s.toml", "--data", "digits", *methods]) == 0
    text = (here / "s.toml").read_text()
    assert "a network of its own for QuPeD" in text and "all methods" in " ".join(text.split())
    linear = 'model = { kind = "mlp", hidden = [] }'
    assert linear in text
    (here / "l.toml").write_text(
        text.replace('model = { kind = "mlp", hidden = [32, 16] }', linear)
    )
    assert settings.read("l.toml").problem.model.hidden == ()
    assert main(["new", "compare", "p.toml", "--data", "digits", "--method", "quped"]) == 0
    assert "all methods" not in (here / "p.toml").read_text()
