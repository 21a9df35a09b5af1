"""What optimism, smoothing and dual extrapolation are for, on saddles with known solutions."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import FESSGDA, FeDualEx, LocalSGDA, OptimisticLocalSGDA
from papers.limits import CONCAVE, CONVEX, COUPLINGS, DUAL_SLOPES, SLOPES

# The mean of both clients, of which each may hold a part or the whole.
K, B, C = (np.mean(part, axis=0) for part in (COUPLINGS, SLOPES, DUAL_SLOPES))
WEAK = 0.05  # convexity and concavity where x and y do little but trade
TRADE = fl.problems.Bilinear(convexity=WEAK, concavity=WEAK)
SPARSE = fl.problems.Bilinear(convexity=CONVEX, concavity=CONCAVE, regulariser=fl.problems.L1(0.25))
STEPS = {"lr": 0.3, "dual_lr": 0.3, "local_steps": 1}


def federation(*parts):
    """Clients of two rows, all alike: a gradient on some of a client's rows is its gradient."""
    rows = [(np.tile(k, (2, 1, 1)), np.tile(np.concatenate([b, c]), (2, 1))) for k, b, c in parts]
    return fl.data.from_arrays(rows)


UNLIKE = federation(*zip(COUPLINGS, SLOPES, DUAL_SLOPES, strict=True))
ALIKE = federation((K, B, C), (K, B, C))


def found(method, problem, clients, rounds):
    run = fl.simulate(
        method, problem, clients, rounds=rounds, eval_every=rounds, precision="float64"
    )
    return np.asarray(run.model)


def trade():
    """The saddle of TRADE, from its linear equations."""
    return -np.linalg.solve(WEAK * np.eye(2) + K @ K.T / WEAK, B - K @ C / WEAK)


def test_optimism_reaches_what_descent_ascent_turns_away_from(double):
    away = found(LocalSGDA(**STEPS), TRADE, UNLIKE, 2500)
    assert np.abs(away).max() > 1e3 * np.abs(trade()).max()
    arrived = found(OptimisticLocalSGDA(**STEPS), TRADE, UNLIKE, 2500)
    np.testing.assert_allclose(arrived, trade(), rtol=0, atol=1e-9)


def test_smoothing_reaches_it_too(double):
    arrived = found(FESSGDA(**STEPS, smoothing=0.5, tracking=0.3), TRADE, UNLIKE, 4000)
    np.testing.assert_allclose(arrived, trade(), rtol=0, atol=1e-9)


def test_without_smoothing_it_is_local_sgda(double):
    plain = found(LocalSGDA(**STEPS), SPARSE, UNLIKE, 5)
    smoothed = found(FESSGDA(**STEPS, smoothing=0.0), SPARSE, UNLIKE, 5)
    np.testing.assert_allclose(smoothed, plain, rtol=1e-14)


def test_dual_extrapolation_reaches_a_saddle_with_its_zeros(double):
    """For clients that are alike, whatever the number of local steps; zeros are exact."""
    x = np.zeros(2)
    for _ in range(2000):
        v = x - 0.1 * (CONVEX * x + B + K @ (K.T @ x - C) / CONCAVE)
        x = np.sign(v) * np.maximum(np.abs(v) - 0.025, 0)
    assert np.count_nonzero(x) == 1
    arrived = found(FeDualEx(lr=0.1, dual_lr=0.1, local_steps=3), SPARSE, ALIKE, 200)
    np.testing.assert_allclose(arrived, x, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(arrived == 0, x == 0)
    np.testing.assert_allclose(
        found(FeDualEx(**STEPS), TRADE, ALIKE, 2500), trade(), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("lr", [0.02, 0.01])
def test_unlike_clients_draw_dual_extrapolation_off_by_an_amount_of_the_step(lr, double):
    """Even with one local step, since its extra gradient is the client's own."""
    problem = fl.problems.Bilinear(convexity=CONVEX, concavity=CONCAVE)
    exact = -np.linalg.solve(CONVEX * np.eye(2) + K @ K.T / CONCAVE, B - K @ C / CONCAVE)
    arrived = found(FeDualEx(lr=lr, dual_lr=lr, local_steps=1), problem, UNLIKE, 2500)
    assert 0.1 * lr < np.abs(arrived - exact).max() < 2 * lr
