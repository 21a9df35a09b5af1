"""The estimators keep scikit-learn's contract, and train over sites."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedloom as fl
from fedloom.errors import FedloomError
from fedloom.sklearn import FederatedClassifier, FederatedRegressor

ESTIMATORS = [
    FederatedClassifier(rounds=15, batch_size=None, parameters={"lr": 0.3}),
    FederatedRegressor(rounds=15, batch_size=None, parameters={"lr": 0.1}),
]


# A classifier of one class has nothing to learn; the check allows an error that says so.
@parametrize_with_checks(ESTIMATORS)
def test_contract(estimator, check):
    check(estimator)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
SITES = np.repeat(["north", "south", "west"], 30)
CLASSES = np.array(["a", "b", "c"])[(X @ RNG.normal(size=(4, 3))).argmax(1)]


@pytest.mark.parametrize(
    "algorithm",
    ["scaffold", fl.algorithms.Unreliable(fl.algorithms.FedAvg(lr=0.5), drop=0.2)],
    ids=["key", "object"],
)
def test_any_method_trains_over_sites(algorithm):
    model = FederatedClassifier(algorithm, rounds=40).fit(X, CLASSES, sites=SITES)
    assert model.score(X, CLASSES) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert model.result_.clients["client"].to_list() == ["north", "south", "west"]
    assert model.result_.final["bytes_up"] > 0


def test_the_rows_of_a_site_may_lie_anywhere():
    order = RNG.permutation(len(X))
    settings = {"rounds": 5, "batch_size": None}
    one = FederatedClassifier(**settings).fit(X, CLASSES, sites=SITES)
    other = FederatedClassifier(**settings).fit(X[order], CLASSES[order], sites=SITES[order])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)


def test_a_regression_and_a_network():
    y = X @ [1.0, -2.0, 0.5, 0.0] + 3
    line = FederatedRegressor(rounds=60, parameters={"lr": 0.2}).fit(X, y, sites=SITES)
    assert line.score(X, y) > 0.99
    network = fl.problems.Supervised(fl.models.MLP((8,)))
    curved = FederatedClassifier(problem=network, rounds=60, parameters={"lr": 0.3})
    assert clone(curved).fit(X, CLASSES, sites=SITES).score(X, CLASSES) > 0.8


@pytest.mark.parametrize(
    "settings,complaint",
    [
        ({"algorithm": "fedavgg"}, "Did you mean 'fedavg'"),
        ({"parameters": {"lrr": 1}}, "FederatedClassifier, parameters.lrr: is not a parameter"),
        ({"parameters": {"lr": -1}}, "lr must be a number > 0, or a schedule; got -1"),
        ({"algorithm": "feddr"}, "FedDR needs step"),
        ({"rounds": 0}, "rounds must be a whole number >= 1; got 0"),
    ],
)
def test_misuse_is_named(settings, complaint):
    with pytest.raises(FedloomError, match=complaint):
        FederatedClassifier(**settings).fit(X, CLASSES)


def test_sites_must_match_the_rows():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FederatedClassifier().fit(X, CLASSES, sites=SITES[1:])


@pytest.mark.parametrize("nobody", [None, float("nan")])
def test_a_row_of_nobody_is_an_error(nobody):
    """None was a TypeError of NumPy's sorting, and nan became a client called nan."""
    sites = [nobody if row in (3, 7) else 1.0 for row in range(90)]
    with pytest.raises(FedloomError, match=r"sites must name .*; 2 of 90 have none, .* row 3"):
        FederatedClassifier(rounds=1).fit(X, CLASSES, sites=sites)


def test_numbers_and_generators_of_numpys_as_searches_draw_them():
    def weights(rounds, seed):
        model = FederatedClassifier(rounds=rounds, batch_size=4, random_state=seed)
        return model.fit(X, CLASSES, sites=SITES).result_.state.hub.model

    np.testing.assert_array_equal(weights(np.int64(2), np.int64(7)), weights(2, 7))
    drawn = [weights(2, np.random.RandomState(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_ctrl_c_ends_a_fit_and_leaves_no_model(monkeypatch):
    """So a search over many fits ends too."""
    stopped = SimpleNamespace(status="interrupted")
    monkeypatch.setattr("fedloom.sklearn.simulate", lambda *given, **options: stopped)
    fresh = FederatedClassifier(rounds=1)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, CLASSES, sites=SITES)
    assert not hasattr(fresh, "result_")


def test_a_search_reaches_the_parameters_of_a_method_and_of_a_problem():
    x, y = make_classification(60, 4, random_state=0)
    wrapped = fl.algorithms.Compressed(fl.algorithms.FedAvg(lr=0.1), fl.compressors.TopK(50))
    model = FederatedClassifier(
        fl.algorithms.FedAvg(lr=0.1), problem=fl.problems.Logistic(intercept=True), rounds=2
    )
    grid = {"algorithm__lr": [1e-6, 0.5], "problem__l2": [0.0], "rounds": [2]}
    search = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss").fit(x, y)
    assert search.best_params_["algorithm__lr"] == 0.5 == search.best_estimator_.algorithm.lr
    assert model.algorithm.lr == 0.1  # a method never changes
    deep = FederatedClassifier(wrapped).set_params(algorithm__inner__lr=0.3)
    assert deep.get_params()["algorithm__inner__lr"] == 0.3 and wrapped.inner.lr == 0.1
    both = model.set_params(algorithm=wrapped, algorithm__compressor__per_cent=20)
    assert both.algorithm.compressor.per_cent == 20
    for wrong in ("algorithm__rl", "problem__l2__x", "roundz"):
        with pytest.raises(ValueError, match=wrong):
            model.set_params(**{wrong: 1})
    with pytest.raises(ValueError, match=r"'algorithm__lr'.* where it is an object"):
        FederatedClassifier("fedavg").set_params(algorithm__lr=0.1)
