"""Saddle problems on the command line: which problem is solved, nested solvers, comparisons."""

import json

import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.experiments import settings

pytestmark = pytest.mark.usefixtures("described_once")
SETTINGS = """
[data]
name = "breast_cancer"

[partition]
scheme = "one_class"
clients = 4
test_fraction = 0.2

[problem]
kind = "auc"
weights = "size"
regulariser = { kind = "l1", strength = 1e-3 }

[[algorithm]]
key = "ffmdr"
beta = 2.0
solver = { kind = "sgda", lr = 0.01, epochs = 2, accuracy = 0.5 }
"""


@pytest.mark.parametrize(
    ("key", "problem", "down", "up"),
    [
        ("ffmdr", "SEP, a dual for each client", [102], [103]),
        ("ffmdr_consensus", "SH, one dual for all", [103], [104]),
        ("local_sgda", "SH, one dual for all", [103], [103]),
        ("momentum_local_sgda", "SH, one dual for all", [206], [206]),
        # Two inner rounds and an outer one, each first for a gradient and then for steps.
        ("fednest", "SH, one dual for all", [103, 1, 103, 1, 103, 102], [1, 1, 1, 1, 102, 102]),
    ],
)
def test_explain_says_which_problem_is_solved_and_what_is_sent(key, problem, down, up, capsys):
    assert main(["explain", key, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["solves"].startswith(problem) and "a_i = 1/n, or rows_i / rows" in told["solves"]
    assert [message["down"] for message in told["messages"]] == down
    assert [message["up"] for message in told["messages"]] == up


def test_a_solver_is_a_table_of_its_own(tmp_path):
    path = tmp_path / "auc.toml"
    path.write_text(SETTINGS)
    (method,) = settings.read(path).algorithms.values()
    assert method == fl.algorithms.FFMDR(
        beta=2.0, solver=fl.algorithms.SGDA(lr=0.01, epochs=2, accuracy=0.5)
    )
    path.write_text(SETTINGS.replace('kind = "sgda"', 'kind = "sgd"'))
    with pytest.raises(fl.FedloomError, match=r"algorithm.solver.kind.*sgda"):
        settings.read(path)


def test_each_method_is_measured_against_the_optimum_of_its_own_problem():
    rng = np.random.default_rng(0)
    parts = [(rng.normal(c / 2, 1, (9 + i, 2)), np.full(9 + i, c)) for i, c in enumerate((0, 1, 0))]
    methods = {
        "separate": fl.algorithms.FFMDR(beta=2.0, solver=fl.algorithms.Exact()),
        "shared": fl.algorithms.FFMDRConsensus(beta=2.0, solver=fl.algorithms.Exact()),
    }
    problem = fl.problems.AUC(l2=0.1, regulariser=fl.problems.L1(0.01))
    runs = fl.compare(
        methods, problem, fl.data.from_arrays(parts), rounds=400, eval_every=400,
        precision="float64", metrics=("distance", "gap"),
    )  # fmt: skip
    for row in runs.table():
        assert row["distance"] < 1e-8
    separate, shared = (runs.results[name][0].model["w"] for name in methods)
    assert np.linalg.norm(separate - shared) > 0.01
