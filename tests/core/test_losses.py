"""Counts, survival, several labels, weights of classes: against NumPy and scikit-learn."""

import jax
import numpy as np
import pytest

import fedloom as fl
from core.slopes import grad_and_slopes, value_and_grad
from data.messages import raises
from fedloom.data.clients import from_arrays
from fedloom.errors import FedloomError
from fedloom.population import assemble
from fedloom.problems import Cox, Logistic, MultiLabel, Multinomial, Poisson, Supervised
from fedloom.problems.cox import concordance
from fedloom.problems.losses import SoftmaxLoss
from fedloom.rows import Rows

RNG = np.random.default_rng(4)
SIZES = (40, 25, 7)
WEIGHTS = np.array([0.6, -0.4, 0.2])


def parts(label):
    made = []
    for size in SIZES:
        x = RNG.normal(size=(size, 3))
        made.append((x, label(x)))
    return made


def survival(x):
    """Times rounded so that some are tied, a third of them censored."""
    times = np.ceil(4 * RNG.exponential(np.exp(-x @ WEIGHTS))) / 2
    return np.column_stack([times, RNG.random(len(x)) < 0.7])


def visits(x):
    exposure = RNG.uniform(0.5, 3, len(x))
    return np.column_stack([RNG.poisson(exposure * np.exp(0.5 + x @ WEIGHTS)), exposure])


COUNTS = parts(lambda x: RNG.poisson(np.exp(0.5 + x @ WEIGHTS)).astype(float))
VISITS = parts(visits)
RARE = parts(lambda x: (x @ WEIGHTS + 0.3 * RNG.normal(size=len(x)) > 0.8).astype(int))
THREE = parts(lambda x: np.digitize(x @ WEIGHTS, [-0.2, 0.9]))
MANY = parts(lambda x: (x @ np.array([[1, 2, 0], [0, 1, -1], [1, 0, 1]]) > 0).astype(int))
LIVES = parts(survival)
NETWORK = fl.models.MLP((4,))

PROBLEMS = {
    "poisson": (Poisson(l2=0.2, intercept=True), COUNTS),
    "poisson with exposure": (Poisson(exposure=True, intercept=True), VISITS),
    "poisson network": (Poisson(model=NETWORK), COUNTS),
    "weighted logistic": (Logistic(class_weights=[1, 4], intercept=True), RARE),
    "balanced multinomial": (Multinomial(class_weights="balanced"), THREE),
    "balanced network": (Supervised(NETWORK, class_weights="balanced"), THREE),
    "multi-label": (MultiLabel(l2=0.1, intercept=True), MANY),
    "multi-label network": (MultiLabel(model=NETWORK), MANY),
    "cox": (Cox(l2=0.1), LIVES),
    "cox network": (Cox(model=NETWORK), LIVES),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_against_finite_differences(name, double):
    problem, rows = PROBLEMS[name]
    federation = assemble(problem, from_arrays(rows), None, "float64")
    noise = 0.3 * np.random.default_rng(0).normal(size=federation.fed.layout.size)
    places = np.arange(0, noise.size, max(1, noise.size // 6))
    grad, slopes = grad_and_slopes(federation, 1, jax.random.key(0), noise, places)
    np.testing.assert_allclose(np.asarray(grad)[places], slopes, rtol=1e-4, atol=1e-7)


def solved(problem, rows, **options):
    return fl.reference(problem, from_arrays(rows, **options)).model


def pooled(rows):
    return tuple(map(np.concatenate, zip(*rows, strict=True)))


def test_poisson_is_scikit_learns():
    from sklearn.linear_model import PoissonRegressor

    ours = solved(Poisson(l2=0.2, intercept=True, weights="size"), COUNTS)
    x, y = pooled(COUNTS)
    theirs = PoissonRegressor(alpha=0.2, tol=1e-10, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(ours["weights"], theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours["bias"], theirs.intercept_, rtol=1e-5)
    ours = solved(Poisson(exposure=True, intercept=True, weights="size"), VISITS)
    x, y = pooled(VISITS)
    model = PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000)
    theirs = model.fit(x, y[:, 0] / y[:, 1], sample_weight=y[:, 1])
    np.testing.assert_allclose(ours["weights"], theirs.coef_, rtol=1e-5)


def test_poisson_loss_is_half_the_deviance():
    from sklearn.metrics import mean_poisson_deviance

    problem, (x, y) = Poisson(), COUNTS[0]
    rows = fl.data.from_arrays([(x, y)]).of(0)
    deviance = problem.metrics()["deviance"].function(WEIGHTS, rows)
    np.testing.assert_allclose(deviance.mean(), mean_poisson_deviance(y, np.exp(x @ WEIGHTS)), 1e-5)
    np.testing.assert_allclose(problem.predict(WEIGHTS, x), np.exp(x @ WEIGHTS), rtol=1e-5)


def test_poisson_in_single_precision():
    """Large counts have a small deviance, and what overflows at a neighbour stays there."""
    y = np.array([1e5, 2e5, 5e4, 0])
    x = np.float32(np.append(1.001 * np.log(y[:3]), -2))[:, None]
    clients = from_arrays([(x, y), (np.full((6, 1), 100.0), np.ones(6) / 2)])
    group = assemble(Poisson(), clients, None, "float32").groups[0]
    w, expected = np.ones(1, np.float32), np.exp(np.float64(x[:, 0]))
    value, slope = value_and_grad(group, 0, w)
    half = y * np.log(np.maximum(y, 1) / expected) - y + expected
    np.testing.assert_allclose(Poisson().losses(w, clients.of(0)), half, rtol=1e-3)
    np.testing.assert_allclose(value, half.mean(), rtol=1e-3)
    np.testing.assert_allclose(slope, [(expected - y) @ x[:, 0] / 4], rtol=1e-3)


def test_balanced_classes_are_scikit_learns():
    from sklearn.linear_model import LogisticRegression

    for rows, problem in ((RARE, Logistic), (THREE, Multinomial)):
        x, y = pooled(rows)
        l2 = 0.01
        options = {"l2": l2, "intercept": True, "weights": "size", "class_weights": "balanced"}
        ours = solved(problem(**options), rows)["weights"]
        model = LogisticRegression(
            C=1 / (l2 * len(y)), class_weight="balanced", tol=1e-10, max_iter=5000
        )
        theirs = model.fit(x, y).coef_
        expected = theirs[0] if problem is Logistic else theirs.T
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=1e-5)


def test_weights_are_those_of_the_whole_federation():
    clients = from_arrays(RARE)
    agreed = Logistic(class_weights="balanced").agree(clients)
    counts = np.bincount(clients.train.y)
    np.testing.assert_allclose(agreed.class_weights, counts.sum() / (2 * counts))
    assert Logistic(class_weights=[1, 3]).agree(clients).class_weights == (1, 3)
    with raises(FedloomError, "Multinomial", "each of the 3 classes", "(1.0, 2.0)"):
        Multinomial(class_weights=[1.0, 2.0]).agree(from_arrays(THREE))
    with raises(FedloomError, "class_weights must be", "'even'", "Try class_weights = 'balanced'"):
        Logistic(class_weights="even")
    with raises(FedloomError, "class_weights", "'squared'"):
        Supervised(NETWORK, "squared", class_weights="balanced")


def partial_likelihood(w, x, y):
    """Efron's, as it is written: one event time after the other."""
    total = 0.0
    for time in np.unique(y[y[:, 1] > 0, 0]):
        events = (y[:, 0] == time) & (y[:, 1] > 0)
        at_risk = np.exp(x[y[:, 0] >= time] @ w).sum()
        tied, number = np.exp(x[events] @ w).sum(), events.sum()
        total += (x[events] @ w).sum()
        total -= sum(np.log(at_risk - i / number * tied) for i in range(number))
    return total


def test_cox_is_the_stratified_likelihood(double):
    federation = assemble(Cox(), from_arrays(LIVES), None, "float64")
    assert max(np.unique(y[:, 0], return_counts=True)[1].max() for _, y in LIVES) > 2  # ties
    for i, (x, y) in enumerate(LIVES):  # clients of unequal size: rows are padded
        value, _ = value_and_grad(federation.groups[0], i, 3 * WEIGHTS)
        expected = -partial_likelihood(3 * WEIGHTS, x, y) / len(y)
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_cox_in_single_precision_with_scores_far_apart():
    """Whoever leaves first has by far the largest score, and the neighbours' rows are padding."""
    x = np.array([[200.0], [1], [0], [2], [0], [1]])
    y = np.array([[1.0, 1], [2, 1], [2, 1], [2, 0], [3, 1], [4, 0]])
    rows = [(x, y), (x[1:] - 300, y[1:]), (np.full((9, 1), 500.0), np.ones((9, 2)))]
    group = assemble(Cox(), from_arrays(rows), None, "float32").groups[0]
    w, tiny = np.ones(1), 1e-6
    for i, (own, labels) in enumerate(rows[:2]):

        def value(w, own=own, labels=labels):
            return -partial_likelihood(w, own - own.max(), labels) / len(labels)

        slope = (value(w + tiny) - value(w - tiny)) / (2 * tiny)
        found = value_and_grad(group, i, w)
        np.testing.assert_allclose(found[0], value(w), rtol=1e-5)
        np.testing.assert_allclose(found[1], [slope], rtol=1e-4)


def test_the_solution_of_cox_is_the_centralised_one():
    from scipy.optimize import minimize

    ours = solved(Cox(weights="size"), LIVES)
    best = minimize(
        lambda w: -sum(partial_likelihood(w, x, y) for x, y in LIVES), np.zeros(3), tol=1e-12
    )
    np.testing.assert_allclose(ours, best.x, atol=1e-5)


def test_a_hand_computed_hazard():
    """Of two alike in pairs, e^w / (e^w + 1) has to be 2/3: the one with x = 1 goes first twice."""
    first = (np.array([[1.0], [0.0]]), np.array([[1.0, 1], [2, 0]]))
    last = (np.array([[0.0], [1.0]]), np.array([[1.0, 1], [2, 0]]))
    np.testing.assert_allclose(solved(Cox(), [first, first, last]), np.log(2), rtol=1e-8)


def test_concordance_by_pairs():
    scores, times = np.array([3.0, 1, 2, 2]), np.array([1.0, 2, 3, 3])
    events = np.array([1, 1, 1, 0])
    # Known pairs: (0; 1, 2, 3) all right, (1; 2, 3) both wrong, (2; 3) tied in score.
    assert concordance(scores, np.column_stack([times, events])) == pytest.approx(3.5 / 6)
    assert np.isnan(concordance(scores, np.column_stack([times, 0 * events])))
    assert np.isnan(concordance(scores * np.nan, np.column_stack([times, events])))


def rows_metric(problem, name, model, x, y):
    return problem.metrics()[name].function(model, Rows(np.array(x), np.array(y))).tolist()


def test_a_row_is_right_on_both_sides():
    x, y = [[2.0, 5], [2, 0], [-2, 9], [-2, 0]], [1.0, -1, 1, -1]
    assert rows_metric(Logistic(), "accuracy", np.array([1.0, 0]), x, y) == [1, 0, 0, 1]


def test_a_row_of_several_labels_is_exact_where_all_are_right():
    problem, x, y = MultiLabel(labels=2), [[1.0, -1]] * 3, [[1, 0], [1, 1], [0, 1]]
    assert rows_metric(problem, "accuracy", np.eye(2), x, y) == [1, 0.5, 0]
    assert rows_metric(problem, "exact", np.eye(2), x, y) == [1, 0, 0]


def test_runs_end_at_good_metrics():
    method = fl.algorithms.FedAvg(lr=0.1, local_steps=2)
    for problem, rows, name in (
        (Poisson(exposure=True, intercept=True), VISITS, "deviance"),
        (MultiLabel(), MANY, "exact"),
        (Cox(), LIVES, "concordance"),
    ):
        options = {"rounds": 60, "batch_size": None, "eval_every": 60}
        history = fl.simulate(method, problem, from_arrays(rows), **options).history[name]
        better = history[-1] < history[0] if name == "deviance" else history[-1] > history[0]
        assert better
        assert name == "deviance" or history[-1] > 0.6


def test_labels_that_do_not_fit():
    whole = from_arrays([(x, y.astype(int)) for x, y in COUNTS])
    with raises(FedloomError, "Poisson needs numbers to predict", "regression = true"):
        assemble(Poisson(), whole, None, "float32")
    with raises(FedloomError, "Cox needs labels", "pairs of a time and an event"):
        assemble(Cox(), whole, None, "float32")
    with raises(FedloomError, "MultiLabel needs labels of shape (rows, k)"):
        assemble(MultiLabel(), from_arrays(RARE), None, "float32")
    method = fl.algorithms.FedAvg(lr=0.1)
    with raises(FedloomError, "Cox compares", "got 32", "batch_size=None"):
        fl.simulate(method, Cox(), from_arrays(LIVES), rounds=1)
    with raises(FedloomError, "Cox needs labels of shape (rows, 2)", "event in [data]"):
        fl.simulate(method, Cox(), from_arrays(COUNTS), rounds=1, batch_size=None)
    with raises(FedloomError, "Poisson: labels must be one count", "exposure = true"):
        fl.simulate(method, Poisson(), from_arrays(VISITS), rounds=1)
    with raises(FedloomError, "Logistic needs class labels", "numbers to predict"):
        assemble(Logistic(class_weights="balanced"), from_arrays(COUNTS), None, "float32")


def test_counts_exposures_and_events_are_what_they_say():
    x = np.eye(3)
    counts = from_arrays([(x, np.array([-1.0, 0.0, 2.5]))])
    with raises(FedloomError, "Poisson: counts must be numbers >= 0", "1 of 3"):
        assemble(Poisson(), counts, None, "float32")
    pairs = np.array([[1.5, 1.0], [0.0, 0.0], [2.0, -1.0]])
    with raises(FedloomError, "Poisson: exposures must be numbers > 0", "2 of 3"):
        assemble(Poisson(exposure=True), from_arrays([(x, pairs)]), None, "float32")
    with raises(FedloomError, "Cox: an event must be 1, or 0", "1 of 3"):
        assemble(Cox(), from_arrays([(x, pairs)]), None, "float32")


@pytest.mark.parametrize("step", [0.3, 1e3, 1e6])
def test_the_prox_of_softmax_is_stationary_at_any_step(step, double):
    """At z with z - v + step (softmax(z) - e_b) = 0, also far from where the search begins."""
    rng = np.random.default_rng(0)
    for classes, scale in ((2, 1), (2, 30), (5, 100)):
        v, labels = rng.normal(size=(40, classes)) * scale, rng.integers(0, classes, 40)
        z = np.asarray(SoftmaxLoss(labels, classes, "float64").prox(jax.numpy.asarray(v), step))
        slope = z - v + step * (jax.nn.softmax(z) - np.eye(classes)[labels])
        assert np.abs(slope).max() <= 1e-9 * (1 + step) * (1 + np.abs(v).max())
