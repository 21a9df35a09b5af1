"""Which way a metric should go is said once, and heeded by sweeps, targets and tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.metrics import chosen as metrics_of

RNG = np.random.default_rng(3)
X = RNG.normal(size=(48, 2))
CLIENTS = fl.data.from_arrays([(X[:20], X[:20, 0] > 0), (X[20:], X[20:, 0] > 0)])
PROBLEM = fl.problems.Logistic()


def wrong(model, rows):
    return jnp.abs(jax.nn.sigmoid(rows.x @ model) - (rows.y > 0))


def right(model, rows):
    return 1 - wrong(model, rows)


ERROR = fl.Metric(wrong, larger_is_better=False)
MERIT = fl.Metric(right, larger_is_better=True)


@pytest.mark.parametrize("name,metric", [("error", ERROR), ("merit", MERIT), ("loss_like", MERIT)])
def test_a_sweep_chooses_the_better_setting_by_a_metric_of_your_own(name, metric):
    found = fl.sweep(
        {"fedavg": fl.algorithms.FedAvg(lr=0.1)},
        PROBLEM,
        CLIENTS,
        over={"lr": [1e-6, 1.0]},
        metrics={name: metric},
        metric=name,
        rounds=10,
    )
    values = {row["lr"]: row[name] for row in found.rows}
    assert found.best["fedavg"].setting["lr"] == 1.0
    assert found.larger_is_better == metric.larger_is_better
    assert (values[1.0] > values[1e-6]) == metric.larger_is_better


def test_a_result_carries_the_direction_and_a_target_heeds_it(tmp_path):
    found = fl.compare(
        {"fedavg": fl.algorithms.FedAvg(lr=1.0)},
        PROBLEM,
        CLIENTS,
        metrics={"error": ERROR, "accuracy": PROBLEM.metrics()["accuracy"]},
        metric="error",
        rounds=20,
        eval_every=1,
    )
    (run,) = found.results["fedavg"]
    run.save(tmp_path / "run")
    assert fl.load(tmp_path / "run").larger_is_better("accuracy_worst")
    assert not run.larger_is_better("error_worst")
    errors = [row["error"] for row in run.rows]
    target = min(errors)
    (row,) = found.table(target=target)
    assert row["rounds to target"] == errors.index(target) > 0


def test_another_model_of_the_hub_goes_the_way_of_its_metric():
    method = fl.algorithms.DRFA(lr=0.5, weight_lr=0.1, local_steps=2)
    run = fl.simulate(method, PROBLEM, CLIENTS, rounds=2)
    assert {"average_accuracy", "average_loss"} <= set(run.final)
    assert run.larger_is_better("average_accuracy") and run.larger_is_better(
        "average_accuracy_worst"
    )
    assert not run.larger_is_better("average_loss")


@pytest.mark.parametrize(
    "column,expected",
    [
        ("accuracy", True),
        ("accuracy_worst10", True),
        ("accuracy_std", False),
        ("average_accuracy", True),
        ("average_accuracy_std", False),
        ("my_accuracy", False),  # a metric of its own, whatever its name ends with
        ("auc", True),
        ("objective", False),
        ("bytes_up", False),
    ],
)
def test_columns(column, expected):
    known = {"accuracy": True, "my_accuracy": False, "auc": True, "objective": False}
    assert metrics_of.larger_is_better(column, known) == expected


def test_no_metric_is_without_a_direction():
    known = metrics_of.of_metrics(("accuracy", "auc", "gap", "sparsity"), PROBLEM)
    assert known == {"accuracy": True, "auc": True, "gap": False, "sparsity": True}
    assert metrics_of.of_metrics(None, PROBLEM) == {"accuracy": True, "loss": False}
    own = {"error": ERROR, "mine": fl.Metric(lambda m, r: jnp.zeros(len(r.y)), True)}
    assert metrics_of.of_metrics(own, PROBLEM) == {"error": False, "mine": True}


@pytest.mark.parametrize("shape", ["mean", "column"])
def test_a_metric_of_rows_is_one_number_a_row(shape):
    """A mean would count the padding of small clients, a column be weighed crosswise."""

    def other(model, rows):
        return wrong(model, rows).mean() if shape == "mean" else wrong(model, rows)[:, None]

    own = {"mine": fl.Metric(other, larger_is_better=False)}
    with pytest.raises(fl.FedloomError, match="a metric of rows must be one number for each row"):
        fl.simulate(fl.algorithms.FedAvg(lr=0.1), PROBLEM, CLIENTS, rounds=1, metrics=own)


@pytest.mark.parametrize(
    ("value", "shown"), [(np.ones(3), r"shape \(3,\)"), ("x", "'x'"), (None, "None")]
)
def test_a_metric_of_scores_that_is_no_number_is_named(value, shown):
    own = {"mine": fl.Metric(lambda scores, labels: value, larger_is_better=True, of="scores")}
    with pytest.raises(fl.FedloomError, match=f"'mine' is of scores .* got {shown}"):
        fl.simulate(fl.algorithms.FedAvg(lr=0.1), PROBLEM, CLIENTS, rounds=1, metrics=own)
