"""Losses, gradients and penalties against NumPy and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from core.slopes import grad_and_slopes, value_and_grad
from data.messages import raises
from fedloom import draws
from fedloom.data.clients import from_arrays
from fedloom.errors import DataError
from fedloom.population import assemble
from fedloom.problems import L1, Box, Sum
from papers.reference import LogisticClients

CLIENTS = LogisticClients()


def assembled(problem, parts, batch_size=None):
    return assemble(problem, from_arrays(parts), batch_size, "float64")


def oracle(problem, parts, batch_size=None, client=0):
    federation = assembled(problem, parts, batch_size)
    return federation.groups[0].objective(client), federation.fed


@pytest.mark.parametrize("client", range(4))
def test_logistic_against_numpy(client, double):
    federation = assembled(fl.problems.Logistic(l2=0.1), CLIENTS.parts())
    w = np.array([0.3, -0.2, 0.5])
    value, grad = value_and_grad(federation.groups[0], client, w)
    np.testing.assert_allclose(value, CLIENTS.value(client, w), rtol=1e-14)
    np.testing.assert_allclose(grad, CLIENTS.grad(client, w), rtol=1e-13)


def regression():
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(5, 3)), rng.normal(size=5)) for _ in range(2)]


def classes():
    rng = np.random.default_rng(1)
    return [(rng.normal(size=(9, 4)), np.arange(9) % 3) for _ in range(2)]


def images():
    rng = np.random.default_rng(2)
    return [(rng.normal(size=(4, 6, 6, 2)), np.arange(4) % 3) for _ in range(2)]


PROBLEMS = {
    "logistic": (fl.problems.Logistic(l2=0.3, intercept=True), CLIENTS.parts()),
    "multinomial": (fl.problems.Multinomial(l2=0.3, intercept=True), classes()),
    "least squares": (fl.problems.LeastSquares(l2=0.3, intercept=True), regression()),
    "mlp": (fl.problems.Supervised(fl.models.MLP((5,)), l2=0.3), classes()),
    "cnn": (fl.problems.Supervised(fl.models.CNN((2,), (5,)), l2=0.3), images()),
    "mlp regression": (fl.problems.Supervised(fl.models.MLP((5,)), "squared"), regression()),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_against_finite_differences(name, double):
    problem, parts = PROBLEMS[name]
    federation = assembled(problem, parts)
    noise = 0.1 * np.random.default_rng(3).normal(size=federation.fed.layout.size)
    places = np.arange(0, noise.size, max(1, noise.size // 12))
    grad, slopes = grad_and_slopes(federation, 0, draws.key(0), noise, places)
    np.testing.assert_allclose(np.asarray(grad)[places], slopes, rtol=1e-4, atol=1e-7)


def test_batches_are_the_means_over_the_rows_drawn(double):
    f, _ = oracle(fl.problems.Logistic(l2=0.1), CLIENTS.parts(), batch_size=4, client=1)
    w, key = np.array([0.3, -0.2, 0.5]), draws.key(5)
    rows = np.asarray(draws.distinct(key, draws.domain(9), 4))
    value, grad, both = jax.jit(
        lambda w, key: (f.value(w, key), f.grad(w, key), f.value_and_grad(w, key))
    )(w, key)
    np.testing.assert_allclose(grad, CLIENTS.grad(1, w, rows), rtol=1e-13)
    np.testing.assert_allclose(value, CLIENTS.value(1, w, rows), rtol=1e-13)
    np.testing.assert_allclose(both[0], value, rtol=1e-14)
    np.testing.assert_allclose(both[1], grad, rtol=1e-14)


def test_a_batch_larger_than_a_client_is_the_client(double):
    f, _ = oracle(fl.problems.Logistic(l2=0.1), CLIENTS.parts(), batch_size=8, client=0)
    w = np.array([0.3, -0.2, 0.5])
    np.testing.assert_allclose(jax.jit(f.grad)(w, draws.key(5)), CLIENTS.grad(0, w), rtol=1e-13)


def test_the_mean_over_all_batches_is_the_full_gradient(double):
    """Every row is drawn equally often, so a stochastic gradient is unbiased."""
    f, _ = oracle(fl.problems.Logistic(l2=0.1), CLIENTS.parts(), batch_size=4, client=1)
    w = np.array([0.3, -0.2, 0.5])
    many = jax.jit(jax.vmap(lambda k: f.grad(w, k)))(jax.random.split(draws.key(0), 40_000))
    error = np.asarray(many.mean(0)) - CLIENTS.grad(1, w)
    assert np.abs(error).max() < 5 * np.asarray(many).std(0).max() / np.sqrt(40_000)


def test_l2_spares_the_bias(double):
    parts = CLIENTS.parts()
    plain, _ = oracle(fl.problems.Logistic(intercept=True), parts)
    ridge, _ = oracle(fl.problems.Logistic(l2=2.0, intercept=True), parts)
    w = np.array([5.0, 0.3, -0.2, 0.5])  # the bias comes first: names are sorted
    assert plain.layout.names == ("bias", "weights")
    difference = ridge.full_value(w) - plain.full_value(w)
    np.testing.assert_allclose(difference, 0.3**2 + 0.2**2 + 0.5**2, rtol=1e-12)


def test_regularisers_act_on_the_arrays_they_name(double):
    problem = fl.problems.Logistic(
        intercept=True, regulariser=Sum((L1(0.1, on=("weights",)), Box(-1, 1, on=("bias",))))
    )
    f, fed = oracle(problem, CLIENTS.parts())
    v = np.array([5.0, 0.3, -0.05, 0.5])
    np.testing.assert_allclose(f.prox(v, 1.0), [1.0, 0.2, 0.0, 0.4])
    np.testing.assert_allclose(fed.prox(v, 2.0), [1.0, 0.1, 0.0, 0.3])
    np.testing.assert_allclose(fed.regularisation(np.array([0.5, 0.3, -0.1, 0.6])), 0.1)
    assert fed.regularisation(v) == np.inf


def test_a_regulariser_spares_the_bias_unless_told(double):
    problem = fl.problems.Logistic(intercept=True, regulariser=L1(0.1))
    f, _ = oracle(problem, CLIENTS.parts())
    np.testing.assert_allclose(f.prox(np.array([5.0, 0.3, -0.05, 0.5]), 1.0), [5, 0.2, 0, 0.4])


def test_a_network_of_your_own(double):
    pair = fl.models.Pair(
        lambda key, spec: {"w": jax.random.normal(key, (*spec.features, spec.classes))},
        lambda arrays, x: jnp.tanh(x) @ arrays["w"],
    )
    clients = from_arrays(classes())
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.5), fl.problems.Supervised(pair), clients, rounds=30
    )
    assert result.model["w"].shape == (4, 3)
    assert result.rows[-1]["loss"] < result.rows[0]["loss"]


def test_a_loss_of_your_own():
    def absolute(outputs, labels):
        return jnp.abs(outputs[:, 0] - labels)

    problem = fl.problems.Supervised(fl.models.MLP((4,)), absolute)
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.05), problem, from_arrays(regression()), rounds=20
    )
    assert result.rows[-1]["loss"] < result.rows[0]["loss"]


@pytest.mark.parametrize(
    ("loss", "complaint"),
    [
        (lambda outputs, y: ((outputs[:, 0] - y) ** 2).mean(), "one number for each row"),
        (lambda outputs, y: (outputs - y[:, None]) ** 2, "one number for each row"),
    ],
)
def test_a_loss_of_your_own_is_one_number_a_row(loss, complaint):
    """A mean would count the padding of small clients, a column be subtracted crosswise."""
    clients = from_arrays([(x[: 2 + i], y[: 2 + i]) for i, (x, y) in enumerate(regression())])
    problem = fl.problems.Supervised(fl.models.MLP((4,)), loss)
    with pytest.raises(fl.FedloomError, match=complaint):
        fl.simulate(fl.algorithms.FedAvg(lr=0.05), problem, clients, rounds=1)


def test_the_squared_loss_needs_an_output_for_each_number():
    outputs = fl.problems.Supervised(fl.models.MLP((4,)), "squared")
    clients = from_arrays([(x, np.stack([y, y], 1)) for x, y in regression()])
    with pytest.raises(fl.FedloomError, match=r"outputs of shape \(.*, 1\) for labels of shape"):
        fl.simulate(fl.algorithms.FedAvg(lr=0.05), outputs, clients, rounds=1)


@pytest.mark.parametrize(
    "make,complaint",
    [
        (lambda: oracle(fl.problems.Logistic(), classes()), "Logistic needs labels of 2 classes"),
        (lambda: oracle(fl.problems.Multinomial(), regression()), "Multinomial needs class labels"),
        (
            lambda: oracle(fl.problems.Logistic(), [(np.eye(2), np.array([0.0, 1.0]))]),
            r"Logistic needs class labels; .* pass integers, such as y\.astype\(int\), or words",
        ),
        (
            lambda: oracle(fl.problems.Multinomial(), [(np.eye(2), np.array([1, 1]))]),
            "2 classes or more; the data have 1",
        ),
        (
            lambda: oracle(fl.problems.Supervised(fl.models.MLP()), regression()),
            "'cross_entropy' needs class labels; the data have numbers to predict",
        ),
        (
            lambda: oracle(fl.problems.Supervised(fl.models.CNN()), classes()),
            "CNN needs images of shape",
        ),
        (lambda: fl.problems.Supervised(fl.models.MLP(), "hinge"), "loss must be one of"),
        (
            lambda: oracle(fl.problems.Supervised(fl.models.MLP()), [(np.eye(2), np.ones(2, int))]),
            "2 classes or more; the data have 1",
        ),
    ],
)
def test_data_that_do_not_fit_are_refused(make, complaint, double):
    with pytest.raises(fl.FedloomError, match=complaint):
        make()


@pytest.mark.parametrize("kind", ["Logistic", "Multinomial", "LeastSquares", "AUC"])
def test_problems_of_one_label_refuse_several(kind):
    several = np.array([[0, 1], [1, 0], [1, 1]])
    clients = from_arrays([(np.eye(3), several)], regression=kind == "LeastSquares")
    with raises(DataError, kind, "one label a row", "shape (3, 2)", "MultiLabel"):
        assemble(getattr(fl.problems, kind)(), clients, None, "float32")


def test_a_model_without_numbers_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 0)))
    labels, method = np.arange(4) % 2, fl.algorithms.FedAvg(lr=0.1)
    for x in (np.zeros((4, 0)), np.load(tmp_path / "x.npy", mmap_mode="r")):
        clients = from_arrays([(x, labels)])
        for problem in (fl.problems.Logistic(), fl.problems.Multinomial()):
            parts = type(problem).__name__, "at least one number", "shape (0,)", "intercept"
            with raises(DataError, *parts):
                fl.simulate(method, problem, clients, rounds=1)
        problem = fl.problems.Logistic(intercept=True)
        assert fl.simulate(method, problem, clients, rounds=1).model["bias"].shape == ()


@pytest.mark.parametrize("number", [2**32, -(2**31) - 1, 2**31])
def test_whole_numbers_are_refused_where_they_would_become_others(tmp_path, number):
    x = np.array([[0], [number], [3], [4]])
    np.save(tmp_path / "x.npy", x)
    labels, method = np.arange(4) % 2, fl.algorithms.FedAvg(lr=0.1)
    refused = "whole numbers", -(2**31), 2**31 - 1, f"got {number}", "x.astype(float)"
    for held in (x, np.load(tmp_path / "x.npy", mmap_mode="r")):
        for given in (
            {"parts": [(held, labels)]},
            {"parts": [(x % 5, labels)], "test": [(held, labels)]},
        ):
            with raises(DataError, *refused):
                fl.simulate(method, fl.problems.Logistic(), from_arrays(**given), rounds=1)
    fl.simulate(method, fl.problems.Logistic(), from_arrays([(x * 1.0, labels)]), rounds=1)


def test_two_classes_are_enough_for_multinomial():
    clients = fl.data.from_arrays([(np.eye(4), np.array([0, 1, 0, 1]))])
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.1), fl.problems.Multinomial(), clients, rounds=1, batch_size=None
    )
    assert np.shape(result.model) == (4, 2)
