"""Pictures of fairness: what they are made of, and that they are drawn."""

import dataclasses

import numpy as np
import pytest

import fedloom as fl
from fedloom.pictures import curves
from fedloom.pictures.shown import evaluations
from fedloom.reports import fairness, heat

RNG = np.random.default_rng(0)
CLIENTS = fl.data.from_arrays([(RNG.normal(i, 1, (8, 2)), RNG.integers(0, 2, 8)) for i in range(3)])


@pytest.fixture(scope="module")
def results():
    methods = {
        "fedavg": fl.algorithms.FedAvg(lr=0.1),
        "afl": fl.algorithms.AFL(lr=0.1, weight_lr=0.1),
    }
    options = {"seeds": (0, 1), "rounds": 6, "eval_every": 2}
    return fl.compare(methods, fl.problems.Logistic(), CLIENTS, **options).results


def test_curves_of_many_methods_differ():
    styles = [tuple(curves.line_style(number).values()) for number in range(32)]
    assert len(set(styles)) == 32


def test_weights_over_rounds_are_those_of_the_evaluations(results, tmp_path):
    run = results["afl"][0]
    rounds, weights = heat.over_rounds(run)
    np.testing.assert_array_equal(rounds, [2, 4, 6])
    np.testing.assert_array_equal(weights[:, -1], run.state.hub.weights)
    np.testing.assert_allclose(weights.sum(0), 1, rtol=1e-6)
    run.save(tmp_path / "kept")
    for ours, read in zip(
        (rounds, weights), heat.over_rounds(fl.load(tmp_path / "kept")), strict=True
    ):
        np.testing.assert_array_equal(ours, read)


def test_only_methods_with_weights_have_a_map(results, tmp_path):
    assert heat.shows_weights(results["afl"]) and not heat.shows_weights(results["fedavg"])
    heat.weights(results, tmp_path / "weights.svg", title="lambda")
    drawn = (tmp_path / "weights.svg").read_text()
    assert "<svg" in drawn


def test_the_metric_of_clients_behind_a_summary(results):
    assert fairness.metric_of_clients(results, "accuracy_worst") == "accuracy"
    assert fairness.metric_of_clients(results, "loss") == "loss"
    assert fairness.metric_of_clients(results, "gap") == "accuracy"


def test_distribution_draws_every_client(results, tmp_path):
    fairness.distribution(results, tmp_path / "d.png", metric="loss", title="by client")
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")


def test_a_diverged_run_does_not_end_the_picture(tmp_path):
    methods = {
        "wild": fl.algorithms.FedAvg(lr=1e30),
        "tame": fl.algorithms.FedAvg(lr=0.1),
    }
    regression = fl.data.from_arrays([(RNG.normal(size=(9, 3)), RNG.normal(size=9))] * 2)
    compared = fl.compare(methods, fl.problems.LeastSquares(), regression, rounds=4)
    fairness.distribution(compared.results, tmp_path / "d.png", metric="loss")
    assert (tmp_path / "d.png").exists()


def test_curves_are_means_at_rounds_of_all_seeds(results):
    """A seed that diverged after round 3 was evaluated there; the other one was not."""
    whole, other = results["fedavg"]
    short = dataclasses.replace(other, rows=[*other.rows[:2], other.rows[2] | {"round": 3}])
    panel = curves.draw({"fedavg": [whole, short]}, metrics=("loss",)).figure.axes[0]
    np.testing.assert_array_equal(panel.lines[0].get_xdata(), [0, 2])
    assert [[row["round"] for row in at] for at in evaluations([whole, short])] == [[0, 0], [2, 2]]


def test_curves_against_bytes_count_both_ways(results):
    drawn = curves.draw(results, metrics=("loss",), against="bytes")
    panel = drawn.figure.axes[0]
    assert panel.get_xlabel() == "bytes sent, both ways"
    assert panel.get_ylabel() == "Loss"
    rows = results["afl"][0].rows  # the same traffic for each seed
    sent = [row["bytes_up"] + row["bytes_down"] for row in rows]
    np.testing.assert_array_equal(panel.lines[1].get_xdata(), sent)
    drawn.figure.canvas.draw()
    ticks = [tick.get_text() for tick in panel.get_xticklabels()]
    assert len(ticks) <= 7 and all(tick.endswith(" B") for tick in ticks)
    assert not panel.xaxis.get_offset_text().get_text()  # no power of ten beside the axis
