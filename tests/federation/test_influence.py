"""Rows that count more than others: a gradient must be of `min_batch` rows by what they count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.harness import NAMES, federation, refused, settings
from fedloom.data.clients import from_arrays
from fedloom.federation.site.influence import least_effective

CAREFUL = {"min_batch": 10, "min_rows": 10, "least_count": 5, "min_sites": 3}
ONE_STEP = {"key": "fedavg", "lr": 1.0, "local_steps": 1}


def sites(rare):
    """Three sites of 60 rows; so many of the second are of class 1, and a third of the others'."""
    rng = np.random.default_rng(3)
    parts = [(rng.normal(50, 20, (60, 3)), np.zeros(60, int)) for _ in NAMES]
    for i, (_, y) in enumerate(parts):
        y[: rare if i == 1 else (rare > 1) * 20] = 1
    return from_arrays(parts, names=NAMES)


def run_with(folder, held, problem, algorithm=ONE_STEP, batch="full", **policy):
    chosen = settings(
        algorithm=algorithm,
        problem={"l2": 0.0, **problem},
        run={"rounds": 1, "batch_size": batch, "eval_every": 1, "metrics": []},
        federation={"secure_aggregation": True, "min_sites": 3},
    )
    allowed = {"methods": [algorithm["key"]], "problems": [problem["kind"]], "metrics": False}
    return federation(folder, chosen, held=held, **allowed, **CAREFUL | policy)[0]


SADDLE = {"key": "local_sgda", "lr": 0.1, "dual_lr": 0.1, "local_steps": 1}
NARROW = {
    "listed": ({"kind": "logistic", "class_weights": [1e-30, 1.0]}, ONE_STEP),
    "balanced": ({"kind": "logistic", "class_weights": "balanced"}, ONE_STEP),
    "softmax": ({"kind": "multinomial", "class_weights": [1.0, 1e9]}, ONE_STEP),
    "auc": ({"kind": "auc", "positive_rate": 1e-12}, SADDLE),
}


@pytest.mark.parametrize("problem,algorithm", NARROW.values(), ids=NARROW)
def test_weights_that_leave_a_single_row_are_refused(problem, algorithm, tmp_path):
    """Of the model of one step a lead read the features of the one patient, to six digits."""
    conductor = run_with(tmp_path, sites(rare=1), problem, algorithm)
    refused(conductor, "a few rows may have nearly all the weight")


def test_a_rare_class_is_rarer_in_a_batch(tmp_path):
    weights = {"kind": "logistic", "class_weights": [1.0, 4.0]}
    assert run_with(tmp_path / "full", sites(rare=20), weights).run().status == "done"
    small = run_with(tmp_path / "batch", sites(rare=20), weights, batch=12)
    refused(small, "in a batch of 12 whose rows count between 1 and 4")


@pytest.mark.parametrize("batch", ["full", 20])
def test_balanced_weights_of_classes_that_are_not_rare_go_on(batch, tmp_path):
    balanced = {"kind": "logistic", "class_weights": "balanced"}
    assert run_with(tmp_path, sites(rare=20), balanced, batch=batch).run().status == "done"


def test_an_owner_may_allow_it(tmp_path):
    one = {"kind": "logistic", "class_weights": [1e-30, 1.0]}
    assert run_with(tmp_path, sites(rare=1), one, min_batch=1).run().status == "done"


@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=40))
def test_no_batch_is_of_fewer_rows_than_the_worst(weights):
    w = np.array(weights)
    effective = w.sum() ** 2 / (w**2).sum()
    assert least_effective(weights, len(w)) <= effective * (1 + 1e-9)


@pytest.mark.parametrize("rows", [1, 10, 1000])
def test_rows_that_count_alike_are_as_many_as_they_are(rows):
    assert least_effective([3.0, 3.0], rows) == pytest.approx(rows)
    assert least_effective([1e-30, 1.0], rows) == pytest.approx(1)
