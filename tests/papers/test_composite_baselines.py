"""FedCanon against its transcription, and what one proximal map a round comes to."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import FedCanon
from papers import composite_baselines
from papers.reference import Draws, LogisticClients

L1 = 0.05
CLIENTS = LogisticClients()
FEDERATION = fl.data.from_arrays(CLIENTS.parts())
PROBLEM = fl.problems.Logistic(l2=0.1, regulariser=fl.problems.L1(L1))


def simulate(method, **options):
    settings = {"rounds": 5, "batch_size": 4, "precision": "float64", "metrics": ()}
    return fl.simulate(method, PROBLEM, FEDERATION, **settings | options)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def optimum():
    """By proximal gradients on the pooled problem."""
    w = np.zeros(CLIENTS.d)
    for _ in range(5000):
        v = w - 0.5 * CLIENTS.pooled_grad(w)
        w = np.sign(v) * np.maximum(np.abs(v) - 0.5 * L1, 0)
    return w


def test_fedcanon_follows_its_listing(double):
    got = simulate(FedCanon(lr=0.3, local_steps=4, cohort=3, server_lr=0.8))
    z, v = composite_baselines.fedcanon(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, steps=4, rounds=5, l1=L1, cohort=3, server_lr=0.8
    )
    close(got.model, z)
    close(got.state.clients[0].slope, v)
    close(got.state.hub.slope, v.mean(0))


@pytest.mark.parametrize("cohort", [None, 2])
def test_fedcanon_ends_at_the_optimum_with_its_zeros(cohort, double):
    """Of clients that are unlike, after many local steps, and with half of them in a round."""
    method = FedCanon(lr=0.05, local_steps=5, cohort=cohort)
    found = np.asarray(simulate(method, rounds=1500, eval_every=1500, batch_size=None).model)
    close(found, optimum(), 1e-10)
    np.testing.assert_array_equal(found == 0, optimum() == 0)


def test_the_mean_gradient_in_the_place_of_the_step_would_end_elsewhere():
    """By an amount of lr K: why the hub sends its step, and why there is no proximal SCAFFOLD."""

    def off(lr):
        options = {"lr": lr, "steps": 5, "rounds": round(20 / lr), "l1": L1}
        found = [
            composite_baselines.fedcanon(CLIENTS, Draws(CLIENTS, None), along_mean=mean, **options)
            for mean in (True, False)
        ]
        close(found[1][0], optimum(), 1e-8)
        return np.abs(found[0][0] - optimum()).max()

    assert off(0.1) > 1e-3
    assert off(0.1) == pytest.approx(2 * off(0.05), rel=0.2)


def test_one_local_step_of_everyone_is_the_proximal_gradient_method(double):
    ours = simulate(FedCanon(lr=0.3, local_steps=1), batch_size=None)
    w = np.zeros(CLIENTS.d)
    for _ in range(5):
        v = w - 0.3 * CLIENTS.pooled_grad(w)
        w = np.sign(v) * np.maximum(np.abs(v) - 0.3 * L1, 0)
    close(ours.model, w)


def test_fedcanon_sends_two_vectors_down_and_one_up(double):
    final = simulate(FedCanon(lr=0.3)).final
    assert final["bytes_down"] == 2 * final["bytes_up"] == 5 * 4 * 2 * CLIENTS.d * 8
