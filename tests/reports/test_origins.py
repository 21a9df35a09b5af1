"""What a report says of where its numbers come from."""

import numpy as np

import fedloom as fl
from fedloom.reports.page import render
from fedloom.reports.reading import read
from fedloom.reports.sections import sections


def test_a_client_with_one_class_is_told_from_one_without_rows(tmp_path):
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(8, 2)).astype(np.float32) for _ in range(3)]
    labels = [np.array([0, 1] * 4), np.zeros(8, int), np.array([0, 1] * 4)]
    held_out = [(x[0], labels[0]), (x[1], labels[1]), (x[2][:0], labels[2][:0])]
    clients = fl.data.from_arrays(
        list(zip(x, labels, strict=True)), test=held_out, names=("both", "one", "none")
    )
    method, problem = fl.algorithms.FedAvg(lr=0.1, local_steps=1), fl.problems.Logistic()
    run = fl.simulate(method, problem, clients, rounds=1, metrics=["auc", "accuracy"])
    run.save(tmp_path / "run")
    (study,) = read([tmp_path / "run"])
    (data,) = (data for section, data in sections(study) if section.kind == "clients")
    assert data["why_none"][1:] == ["one class only", "no rows"]
    assert data["rows"] == {"Training rows": [8, 8, 8], "Test rows": [8, 8, 0]}
    page = render([study])
    assert "<td>one class only</td>" in page and "<td>no rows</td>" in page
    assert "on 3 clients" in page and "Figures are on test rows" in page
    assert "Gaps" not in page  # there were no tables
