"""Which figures a run shows: over clients, over rows, the main one, and those nobody asked for."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE as METHODS
from fedloom.measuring import evaluation
from fedloom.metrics.chosen import headline, shown
from fedloom.parameters import parametrised

FEDAVG = fl.algorithms.FedAvg(lr=0.3)
SIZES = (40, 1, 12)  # one client has a single test row


def clients(regression=False):
    rng = np.random.default_rng(3)
    parts = [(rng.normal(i / 2, 1, (n, 3)), rng.normal(size=n)) for i, n in enumerate(SIZES)]
    if not regression:
        parts = [(x, (x[:, 0] + y > 0.5).astype(int)) for x, y in parts]
    return fl.data.from_arrays([(x, y) for x, y in parts], test=parts)


@parametrised
class Linear(fl.models.Model):
    """As many outputs as inputs."""

    def init(self, key, spec):
        return jnp.zeros((2, 2), spec.dtype)

    def apply(self, arrays, x):
        return x @ arrays


@pytest.fixture(scope="module")
def by_size():
    problem = fl.problems.Logistic(weights="size")
    return fl.simulate(FEDAVG, problem, clients(), rounds=3, precision="float64")


def test_a_mean_over_rows_stands_beside_that_over_clients(by_size):
    for name in ("accuracy", "loss"):
        each = by_size.client_metrics[name]
        assert by_size.final[name] == pytest.approx(each.mean(), rel=1e-12)
        over_rows = each @ np.array(SIZES) / sum(SIZES)
        assert by_size.final[f"{name}_rows"] == pytest.approx(over_rows, rel=1e-12)
    assert by_size.larger_is_better("accuracy_rows") and not by_size.larger_is_better("loss_rows")
    held, correct = clients(), []
    for x, y in zip(held.test.x, held.test.y, strict=True):
        correct.append((x @ np.asarray(by_size.model) > 0) == (y > 0))
    assert by_size.final["accuracy_rows"] == pytest.approx(np.mean(correct), rel=1e-12)


def test_the_main_figure_is_weighed_as_the_problem_weighs(by_size, tmp_path):
    assert by_size.headline == "accuracy_rows"
    columns = [name for name in by_size.final if name.startswith("accuracy")]
    assert columns[:2] == ["accuracy_rows", "accuracy"]
    by_size.save(tmp_path / "run")
    assert fl.load(tmp_path / "run").headline == "accuracy_rows"
    assert "Accuracy, all rows" in by_size.plot().figure.axes[0].get_ylabel()
    table = by_size._repr_html_()
    assert "mean over clients" in table and "as a whole" in table
    equal = fl.simulate(FEDAVG, fl.problems.Logistic(), clients(), rounds=1)
    assert equal.headline == "accuracy" and "accuracy_rows" in equal.final


def test_comparisons_and_sweeps_go_by_the_main_figure():
    common = ({"fedavg": FEDAVG}, fl.problems.Logistic(weights="size"), clients())
    found = fl.compare(*common, rounds=1)
    assert found.metric == "accuracy_rows" and "accuracy_rows" in found.table()[0]
    assert fl.sweep(*common, over={"lr": [0.1]}, rounds=1).metric == "accuracy_rows"


def test_main_figures_of_other_metrics():
    sized = {"weights": "size"}
    logistic = fl.problems.Logistic(**sized)
    assert headline(("f1", "accuracy"), logistic) == "f1"  # over all rows by itself
    assert headline(("objective",), logistic) == "objective"
    own = fl.Metric(lambda model, rows: rows.y, larger_is_better=True)
    assert headline({"share": own}, logistic) == "share_rows"
    assert headline({"share": own._replace(of="scores")}, logistic) == "share"
    assert headline((), logistic) is None
    assert headline(None, fl.problems.Vertical()) == "rmse"
    assert headline(None, fl.problems.Vertical(loss="logistic")) == "accuracy"


def test_a_metric_may_end_like_a_summary():
    own = {"n_rows": fl.Metric(lambda model, rows: rows.y, larger_is_better=True)}
    run = fl.simulate(FEDAVG, fl.problems.Logistic(), clients(), rounds=1, metrics=own)
    assert run.larger_is_better("n_rows") and run.larger_is_better("n_rows_worst")


def test_a_problem_of_the_order_of_scores_shows_the_auc():
    method = METHODS["ffmdr"].example()
    run = fl.simulate(method, fl.problems.AUC(), clients(), rounds=2)
    assert run.headline == "auc" and "accuracy" in run.final and "auc_worst" in run.final
    both = [len(set(clients().test_of(i).y)) == 2 for i in range(3)]
    assert both == [True, False, True]
    assert (~np.isnan(run.client_metrics["auc"])).tolist() == both


@pytest.mark.parametrize("loss", ["own", "squared"])
def test_a_regression_shows_its_errors(loss):
    problem = fl.problems.LeastSquares()
    if loss == "squared":
        problem = fl.problems.Supervised(fl.models.MLP(hidden=(2,)), loss="squared")
    run = fl.simulate(FEDAVG, problem, clients(regression=True), rounds=1)
    assert run.headline == "rmse" and {"rmse", "mae", "r2", "loss"} <= set(run.final)


def test_rows_of_several_numbers_show_their_loss():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 2)).astype(np.float32)
    held = fl.data.from_arrays([(x, x), (x, x)])
    assert held.train.y.ndim == 2

    run = fl.simulate(FEDAVG, fl.problems.Supervised(Linear(), loss="squared"), held, rounds=1)
    assert run.headline == "loss" and "rmse" not in run.final


def test_a_problem_with_its_own_loss_shows_that():
    problem = fl.problems.Supervised(fl.models.MLP(), loss=lambda scores, y: scores[:, 0])
    assert shown(problem) == ("loss",)


@pytest.mark.parametrize("name,meant", [("accuarcy", "accuracy"), ("brire", "brier")])
def test_a_misspelt_metric_gets_what_was_meant(name, meant):
    with pytest.raises(fl.FedloomError, match=rf"got '{name}'. Did you mean '{meant}'"):
        evaluation.choose((name,), fl.problems.Logistic(), False)


@pytest.mark.parametrize("name", ["accuracy_wrost", "f1_rows", "objective_worst"])
def test_a_column_that_no_history_has_is_not_compared(name):
    methods = {"f": FEDAVG}
    metrics = ("accuracy", "f1", "objective")
    with pytest.raises(fl.FedloomError, match=f"got '{name}'. Did you mean"):
        fl.compare(methods, fl.problems.Logistic(), clients(), metrics=metrics, metric=name)
