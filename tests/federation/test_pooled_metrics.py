"""Metrics of all scores and labels over a network: from means, or from scores that may leave."""

import json

import numpy as np
import pytest

import fedloom as fl
from federation import parties
from federation.harness import NAMES, clients, federation, refused, settings, settings_for
from fedloom.data.clients import from_arrays
from fedloom.errors import FederationError
from fedloom.federation.people import trial
from fedloom.metrics.ready import made_of

FEDAVG = {"key": "fedavg", "lr": 0.05, "local_steps": 2}
RUN = {"rounds": 2, "eval_every": 1}
FROM_MEANS = ["brier", "log_loss"]
FROM_SCORES = ["f1", "balanced_accuracy", "average_precision", "calibration_error"]
PARTS = ("", "_worst", "_worst10", "_best10", "_std")
NUMBERS = {"labels": {trial.LABEL: "numbers"}, "problems": ["least_squares"]}
VALUES = ["rmse", "mae", "r2"]


def chosen(metrics, problem=None, **tables):
    run = {**RUN, "metrics": metrics}
    return settings(algorithm=FEDAVG, run=run, problem=problem or {}, **tables)


def simulated(chosen, held):
    return fl.simulate(chosen.algorithm, chosen.problem, held, **chosen.run.options())


def numbers():
    """Clients with numbers to predict."""
    rng = np.random.default_rng(2)
    sizes = (9, 14, 9)
    x = [rng.normal(i, 1, (n, 3)).astype(np.float32) for i, n in enumerate(sizes)]
    pairs = [(part, (part.sum(1) + rng.normal(size=len(part))).astype(np.float32)) for part in x]
    return from_arrays(pairs, names=NAMES)


def several():
    """Clients of three classes, of which one client lacks one."""
    rng = np.random.default_rng(4)
    x = [rng.normal(i / 2, 1, (n, 3)).astype(np.float32) for i, n in enumerate((8, 9, 9))]
    y = [rng.permutation(np.arange(n) % (2 if i == 1 else 3)) for i, n in enumerate((8, 9, 9))]
    return from_arrays(list(zip(x, y, strict=True)), names=NAMES)


def same(federated, simulated, metrics):
    for ours, theirs in zip(federated.rows, simulated.rows, strict=True):
        for column in (name + part for name in metrics for part in PARTS):
            assert ours[column] == pytest.approx(theirs[column], abs=1e-5, nan_ok=True), column
    for name in metrics:
        np.testing.assert_allclose(
            federated.client_metrics[name], simulated.client_metrics[name], atol=1e-5
        )
        assert federated.larger_is_better(name) == simulated.larger_is_better(name)


def overheard(wires, name):
    """What a site says when it is measured, from now on."""
    told, answer = [], wires[name].service.call

    def call(verb, facts, body):
        given = answer(verb, facts, body)
        if verb == "measure":
            told.append((json.loads(given[0]), given[1]))
        return given

    wires[name].service.call = call
    return told


def test_metrics_of_means_need_no_scores(tmp_path):
    wanted = chosen(["accuracy", *FROM_MEANS])
    conductor, wires = federation(tmp_path, wanted)
    told = overheard(wires, "berlin")
    same(conductor.run(), simulated(wanted, clients()), FROM_MEANS)
    for facts, body in told:  # and the number of rows, by which means over all are taken
        assert set(facts) == {"accuracy", *FROM_MEANS, "rows", "scored"}
        assert facts["rows"] == 8 and facts["scored"] == [] and body == b""


def test_metrics_of_scores_follow_the_rules_of_auc(tmp_path):
    wanted = chosen(["auc", "accuracy", *FROM_SCORES, *FROM_MEANS])
    conductor, _ = federation(tmp_path / "open", wanted, scores=True)
    theirs = simulated(wanted, clients())
    ours = conductor.run()
    same(ours, theirs, [*FROM_SCORES, *FROM_MEANS])
    same(ours, theirs, ["auc"])
    assert ours.headline == "auc" == theirs.headline and list(ours.final)[5] == "auc"
    for name in FROM_SCORES:
        conductor, _ = federation(tmp_path / name, chosen([name]))
        refused(conductor, f"lets no scores of rows leave; the job wants the metric '{name}'")
        secure = chosen([name], federation={"secure_aggregation": True})
        conductor, _ = federation(tmp_path / f"secure-{name}", secure, scores=True)
        with pytest.raises(FederationError, match=f"metric '{name}' needs scores of single rows"):
            conductor.run()


def test_several_classes(tmp_path):
    wanted = chosen([*FROM_SCORES, *FROM_MEANS], {"kind": "multinomial"})
    policy = {"problems": ["multinomial"], "labels": {trial.LABEL: [0, 1, 2]}, "scores": True}
    conductor, wires = federation(tmp_path, wanted, held=several(), **policy)
    told = overheard(wires, "lyon")
    ours, theirs = conductor.run(), simulated(wanted, several())
    same(ours, theirs, [*FROM_SCORES, *FROM_MEANS])
    assert np.isnan(ours.client_metrics["average_precision"]).tolist() == [False, True, False]
    assert all(facts["scored"][2] == 0 for facts, _ in told)


def test_decisions_of_a_saddle_problem(tmp_path):
    wanted = settings_for("ffmdr", run={"metrics": ["f1", "balanced_accuracy"]})
    policy = {"methods": ["ffmdr"], "problems": ["auc"], "scores": True}
    conductor, _ = federation(tmp_path, wanted, **policy)
    same(conductor.run(), simulated(wanted, clients()), ["f1", "balanced_accuracy"])


def test_scores_leave_only_where_somebody_asks_for_them(tmp_path):
    wanted = settings_for("ffmdr")
    conductor, _ = federation(tmp_path, wanted, methods=["ffmdr"], problems=["auc"])
    ours, theirs = conductor.run(), simulated(wanted, clients())
    assert theirs.headline == "auc" and "auc" not in ours.final
    assert ours.headline == "accuracy" and "accuracy_rows" in ours.final


def test_own_networks(tmp_path):
    wanted = settings_for("quped", run={"metrics": ["f1", "log_loss"]})
    policy = {"methods": ["quped"], "problems": ["personal"], "scores": True}
    conductor, _ = federation(tmp_path, wanted, **policy)
    same(conductor.run(), simulated(wanted, clients()), ["f1", "log_loss"])


def test_numbers_to_predict_never_leave(tmp_path):
    wanted = chosen(None, {"kind": "least_squares"}, data={"regression": True})  # by default
    conductor, wires = federation(tmp_path, wanted, held=numbers(), **NUMBERS)
    told = overheard(wires, "torino")
    same(conductor.run(), simulated(wanted, numbers()), VALUES)
    for facts, body in told:
        means = {"squared_error", "absolute_error", "label", "squared_label"}
        assert set(facts) == {"loss", *means, "rows", "scored"} and body == b""


@pytest.mark.parametrize("kind", ["logistic", "least_squares"])
def test_secure_sums_tell_the_metrics_over_all_rows(kind, tmp_path):
    metrics, policy, held, data = FROM_MEANS, {}, clients(), {}
    if kind == "least_squares":
        metrics, policy, held, data = VALUES, NUMBERS, numbers(), {"regression": True}
    secure = {"secure_aggregation": True}
    wanted = chosen(["loss", *metrics], {"kind": kind}, data=data, federation=secure)
    conductor, _ = federation(tmp_path, wanted, held=held, **policy)
    ours, theirs = conductor.run(), simulated(wanted, held)
    assert ours.client_metrics == {}
    for name in ("loss_rows", *metrics):
        assert ours.final[name] == pytest.approx(theirs.final[name], abs=1e-5)
        assert f"{name}_worst" not in ours.final


def test_a_few_rows_tell_no_means(tmp_path):
    wanted = chosen(["brier"])
    conductor, wires = federation(tmp_path, wanted, least_count=9)
    told = overheard(wires, "berlin")  # it has eight rows
    ours = conductor.run()
    assert all(facts["brier"] is None and facts["rows"] is None for facts, _ in told)
    assert np.isnan(ours.client_metrics["brier"]).tolist() == [True, False, False]
    assert np.isfinite(ours.final["brier"])


@pytest.mark.parametrize("rows", [-1, 1.5, 10**9, "8"])
def test_a_number_of_rows_that_makes_no_sense_costs_that_site_only(rows, tmp_path):
    conductor, wires = federation(tmp_path, chosen(["brier"]))
    answer = wires["lyon"].service.call

    def call(verb, facts, body):
        text, data = answer(verb, facts, body)
        return (json.dumps({**json.loads(text), "rows": rows}) if verb == "measure" else text), data

    wires["lyon"].service.call = call
    ours = conductor.run()
    assert any("the metrics of lyon are refused" in note for note in conductor.notes)
    assert np.isnan(ours.client_metrics["brier"]).tolist() == [False, True, False]
    assert np.isfinite(ours.final["brier"])


def test_scores_of_other_classes_are_refused(tmp_path):
    conductor, wires = federation(tmp_path, chosen(["f1"]), scores=True)
    answer = wires["lyon"].service.call

    def call(verb, facts, body):
        text, data = answer(verb, facts, body)
        said = json.dumps({**json.loads(text), "scored": [1, 1, 9]})
        return (said if verb == "measure" else text), data

    wires["lyon"].service.call = call
    ours = conductor.run()
    assert any("scores of 2 classes were due" in note for note in conductor.notes)
    assert np.isnan(ours.client_metrics["f1"]).tolist() == [False, True, False]


def test_the_label_party_takes_them_from_the_summed_scores(tmp_path):
    metrics = {"metrics": ["loss", "f1", "log_loss", "average_precision"]}
    wanted = parties.settings(run=metrics)
    conductor, _ = parties.federation(tmp_path / "plain", wanted)
    held = parties.together(tmp_path / "plain" / "files", wanted)
    ours, theirs = conductor.run(), simulated(wanted, held)
    for name in metrics["metrics"]:
        assert ours.final[name] == pytest.approx(theirs.final[name], abs=1e-5)
    assert ours.final["log_loss"] == pytest.approx(ours.final["loss"], rel=1e-5)
    step = {"key": "egvfl", "step": 0.05}
    secure = parties.settings(algorithm=step, run=metrics, federation={"secure_aggregation": True})
    ours = parties.federation(tmp_path / "secure", secure)[0].run()
    assert ours.final["log_loss"] == pytest.approx(ours.final["loss"], rel=1e-5)
    assert 0 < ours.final["f1"] <= 1


@pytest.mark.parametrize("label", [1e200, -1e308])
def test_labels_whose_square_is_too_large_make_no_r2(label):
    """A site may say so, and the run of the others goes on."""
    told = {"squared_error": 1.0, "label": label, "squared_label": 1.0}
    assert np.isnan(made_of("r2", told))
