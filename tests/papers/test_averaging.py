"""The averaging family against its transcriptions, and what the papers say of it."""

import functools

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from papers import averaging
from papers.reference import Draws, LogisticClients

CLIENTS = LogisticClients()
FEDERATION = fl.data.from_arrays(CLIENTS.parts())
PROBLEM = fl.problems.Logistic(l2=0.1)


def simulate(algorithm, *, problem=PROBLEM, **options):
    """A run whose model is looked at; nothing is measured, as that takes a program more."""
    settings = {"rounds": 5, "batch_size": 4, "precision": "float64", "metrics": ()}
    return fl.simulate(algorithm, problem, FEDERATION, **settings | options)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("batch_size", [4, 8, None])
@pytest.mark.parametrize("cohort", [3, None])
def test_fedavg_follows_its_listing(batch_size, cohort, double):
    got = simulate(
        fl.algorithms.FedAvg(lr=0.3, local_steps=4, cohort=cohort, server_lr=0.7),
        batch_size=batch_size,
    )
    expected = averaging.fedavg(
        CLIENTS, Draws(CLIENTS, batch_size), lr=0.3, steps=4, cohort=cohort, rounds=5, server_lr=0.7
    )
    close(got.model, expected)


def test_fedavg_weighs_by_size_where_the_problem_does(double):
    problem = fl.problems.Logistic(l2=0.1, weights="size")
    got = simulate(fl.algorithms.FedAvg(lr=0.3, local_steps=4, cohort=3), problem=problem)
    expected = averaging.fedavg(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, steps=4, cohort=3, rounds=5, weights=[6, 9, 6, 9]
    )
    close(got.model, expected)


def test_fedavg_in_epochs_takes_each_client_over_its_own_rows(double):
    algorithm = fl.algorithms.FedAvg(lr=0.3, local_steps="2 epochs")
    got = simulate(algorithm, rounds=1)
    draws, trained = Draws(CLIENTS, 4), []
    for i in range(CLIENTS.n):
        w = np.zeros(CLIENTS.d)
        for batch in draws.batches(1, 1, i, 2 * -(-len(CLIENTS.y[i]) // 4)):
            w = w - 0.3 * CLIENTS.grad(i, w, batch)
        trained.append(w)
    close(got.model, np.mean(trained, axis=0))


def test_fedavg_with_one_full_step_is_gradient_descent(double):
    got = simulate(fl.algorithms.FedAvg(lr=0.5, local_steps=1), batch_size=None, rounds=20)
    w = np.zeros(CLIENTS.d)
    for _ in range(20):
        w = w - 0.5 * CLIENTS.pooled_grad(w)
    close(got.model, w)


def test_fedprox_follows_its_listing(double):
    got = simulate(fl.algorithms.FedProx(lr=0.3, mu=0.5, local_steps=4, cohort=3))
    expected = averaging.fedprox(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, mu=0.5, steps=4, cohort=3, rounds=5
    )
    close(got.model, expected)


def test_fedprox_drawn_by_weight_averages_alike():
    problem = fl.problems.Logistic(l2=0.1, weights="size")
    algorithm = fl.algorithms.FedProx(lr=0.3, mu=0.5, cohort=64, sampling="by_weight")
    uniform = fl.algorithms.FedProx(lr=0.3, mu=0.5)
    sampled = np.mean(
        [simulate(algorithm, problem=problem, rounds=1, batch_size=None, seed=s).model
         for s in range(8)], axis=0,
    )  # fmt: skip
    exact = simulate(uniform, problem=problem, rounds=1, batch_size=None).model
    # 512 draws: the means differ by the noise of sampling only.
    np.testing.assert_allclose(sampled, exact, atol=0.05)


def test_stragglers_do_less_but_count():
    full = simulate(fl.algorithms.FedProx(lr=0.1, local_steps=10), rounds=1, batch_size=None)
    late = simulate(
        fl.algorithms.FedProx(lr=0.1, local_steps=10, stragglers=100), rounds=1, batch_size=None
    )
    assert 0 < np.linalg.norm(late.model) < np.linalg.norm(full.model)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_stragglers_take_1_to_all_but_one_of_their_steps(steps, double):
    """With probability 1/2; a client that has one step to take takes it. Full batches."""
    drawn, lengths = Draws(CLIENTS, None), []

    def taken(r, i):
        _, chance, part = jax.random.split(draws.client_key(drawn.root, r, 1, i), 3)
        late = jax.random.uniform(chance) < 0.5
        lengths.append(int(jax.random.randint(part, (), 1, steps)) if late and steps > 1 else steps)
        return lengths[-1]

    method = fl.algorithms.FedProx(lr=0.3, mu=0.5, local_steps=steps, cohort=3, stragglers=50)
    got = simulate(method, batch_size=None)
    options = {"lr": 0.3, "mu": 0.5, "steps": steps, "cohort": 3, "rounds": 5}
    close(got.model, averaging.fedprox(CLIENTS, drawn, taken=taken, **options))
    assert max(lengths) == steps and min(lengths) == 1


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("cohort", [3, None])
def test_scaffold_follows_its_listing(option, cohort, double):
    got = simulate(
        fl.algorithms.Scaffold(lr=0.3, local_steps=4, cohort=cohort, server_lr=0.7, option=option)
    )
    x, c, c_i = averaging.scaffold(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, steps=4, cohort=cohort, rounds=5, server_lr=0.7,
        option=option,
    )  # fmt: skip
    close(got.model, x)
    close(got.state.hub.control, c)
    close(got.state.clients[0].control, c_i)


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_keeps_the_mean_of_its_controls(option, double):
    for rounds in (1, 2, 7):
        algorithm = fl.algorithms.Scaffold(lr=0.3, cohort=2, option=option)
        state = simulate(algorithm, rounds=rounds).state
        close(state.clients[0].control.mean(0), state.hub.control)


def test_scaffold_with_one_full_step_is_gradient_descent(double):
    got = simulate(fl.algorithms.Scaffold(lr=0.5, local_steps=1), batch_size=None, rounds=20)
    w = np.zeros(CLIENTS.d)
    for _ in range(20):
        w = w - 0.5 * CLIENTS.pooled_grad(w)
    close(got.model, w)


@functools.cache
def optimum():
    w = np.zeros(CLIENTS.d)
    for _ in range(20000):
        w = w - 0.5 * CLIENTS.pooled_grad(w)
    return w


def test_scaffold_reaches_the_optimum_where_fedavg_drifts(double):
    known = optimum()
    settings = {"rounds": 600, "batch_size": None, "optimum": known, "metrics": ("distance", "gap")}
    scaffold = simulate(fl.algorithms.Scaffold(lr=0.2, local_steps=10), **settings).final
    fedavg = simulate(fl.algorithms.FedAvg(lr=0.2, local_steps=10), **settings).final
    assert scaffold["distance"] < 1e-10
    assert abs(scaffold["gap"]) < 1e-14
    assert fedavg["distance"] > 1e-2
    assert fedavg["gap"] > 1e-6
