"""Where robust methods end: at the minimax solution of a small problem, and on Adult."""

import numpy as np
import pytest
from scipy.optimize import minimize

import fedloom as fl
from conftest import data_folder
from fedloom.algorithms import AFL, DRFA, DRFAGA, DRFAProx, FedAvg, QFedSGD
from papers import robust
from tiers import thorough

# Least squares with two numbers to fit; three clients are alike, the fourth is not. The minimax
# solution is found by a program with one constraint a client.
TOY = [
    (np.eye(2) + 0.1 * i, np.array(y))
    for i, y in enumerate([(1.0, 0.0), (1.1, 0.1), (0.9, 0.2), (-1.0, 0.5)])
]
TOY_CLIENTS = fl.data.from_arrays(TOY)


def toy_loss(i, w):
    x, y = TOY[i]
    return np.mean((x @ w - y) ** 2) / 2


def minimax(box=None):
    """min t  with  f_i(w) <= t  for every client."""
    limits = [{"type": "ineq", "fun": lambda z, i=i: z[2] - toy_loss(i, z[:2])} for i in range(4)]
    bounds = [box or (None, None)] * 2 + [(None, None)]
    found = minimize(
        lambda z: z[2], np.array([0.0, 0.0, 9.0]), constraints=limits, bounds=bounds,
        method="SLSQP", options={"ftol": 1e-10, "maxiter": 1000},
    )  # fmt: skip
    assert found.success
    return found.x[2]


def on_toy(method, *, box=None, rounds=4000):
    g = fl.problems.Zero() if box is None else fl.problems.Box(*box)
    return fl.simulate(
        method, fl.problems.LeastSquares(regulariser=g), TOY_CLIENTS, rounds=rounds,
        eval_every=rounds, batch_size=None, precision="float64", metrics=("loss",),
    )  # fmt: skip


BOX = (-0.2, 0.1)
TO_THE_MINIMAX = {
    "afl": (AFL(lr=0.05, weight_lr=0.05), None),
    "afl in a box": (AFL(lr=0.05, weight_lr=0.05), BOX),
    "drfa": (DRFA(lr=0.01, weight_lr=0.01, local_steps=5), None),
    "drfa in a box": (DRFA(lr=0.01, weight_lr=0.01, local_steps=5), BOX),
    "drfa_ga": (DRFAGA(lr=0.01, weight_lr=0.05, local_steps=5), None),
}


@pytest.mark.parametrize("name", TO_THE_MINIMAX)
def test_the_worst_loss_comes_within_a_per_cent_of_the_minimax_value(name):
    method, box = TO_THE_MINIMAX[name]
    best = minimax(box)
    final = on_toy(method, box=box).final
    assert best * (1 - 1e-9) <= final["loss_worst"] < 1.01 * best
    assert best * (1 - 1e-9) <= final["average_loss_worst"] < 1.03 * best


def test_averaging_leaves_the_fourth_client_behind():
    assert on_toy(FedAvg(lr=0.01, local_steps=5)).final["loss_worst"] > 1.5 * minimax()


@pytest.mark.parametrize("prior", ["quadratic", "kl"])
def test_drfa_prox_solves_the_regularised_problem(prior):
    """KL: the maximum over lambda is mu log sum_i exp(f_i / mu) / n; quadratic: a projection."""
    mu = 0.3

    def worst_mixture(w):
        f = np.array([toy_loss(i, w) for i in range(4)])
        if prior == "kl":
            return mu * np.log(np.mean(np.exp(f / mu)))
        lam = robust.simplex(0.25 + f / mu)
        return lam @ f - mu / 2 * np.sum((lam - 0.25) ** 2)

    expected = minimize(worst_mixture, np.zeros(2), method="BFGS", options={"gtol": 1e-10}).x
    method = DRFAProx(lr=0.002, weight_lr=0.01, mu=mu, prior=prior, local_steps=2)
    result = on_toy(method, rounds=6000)
    # Local steps of unlike clients, and t', leave an error of the order of lr.
    np.testing.assert_allclose(result.model, expected, atol=5e-3)


def test_the_larger_q_the_smaller_the_worst_loss():
    worst = [on_toy(QFedSGD(lr=0.3, q=q)).final["loss_worst"] for q in (0.0, 2.0, 20.0)]
    assert worst[0] > 1.5 * minimax() > worst[1] > worst[2]
    assert worst[2] < 1.1 * minimax()


@pytest.fixture(scope="module")
def adult():
    folder = data_folder()
    if folder is None or not (folder / "adult").is_dir():
        pytest.skip("needs a folder of public data with Adult: set FEDLOOM_DATA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDLOOM_DATA", str(folder))
        return fl.data.load("adult")


def test_adult_is_divided_by_sex_and_by_race(adult):
    assert adult.x.shape == (32561, 14) and adult.test.x.shape == (16281, 14)
    np.testing.assert_allclose(adult.x.mean(0), 0, atol=1e-10)  # of the training rows only
    assert np.abs(adult.test.x.mean(0)).max() > 1e-3
    sex = fl.data.partition(adult, "column", column="sex", clients_each=5)
    assert [name.split("/")[0] for name in sex.names] == ["Female"] * 5 + ["Male"] * 5
    assert sex.sizes[:5].sum() == 10771 and sex.sizes[5:].sum() == 21790
    race = fl.data.partition(adult, "column", column="race", clients_each=2)
    assert len(race) == 10 and len({name.split("/")[0] for name in race.names}) == 5
    assert race.sizes.sum() == 32561 and race.test_sizes.sum() == 16281


@thorough
def test_on_adult_by_sex_drfa_leads_in_rounds_and_averaging_stays_behind(adult):
    """The paper's figure 4, in one seed: all at the stated rates, 10 local steps, AFL with one."""
    clients = fl.data.partition(adult, "column", column="sex", clients_each=5)

    def worst(method, rounds):
        return fl.simulate(
            method, fl.problems.Logistic(intercept=True), clients, rounds=rounds, batch_size=50,
            eval_every=rounds, metrics=("accuracy",),
        ).final["accuracy_worst"]  # fmt: skip

    afl = worst(AFL(lr=0.1, weight_lr=0.2), 500)
    assert worst(DRFA(lr=0.1, weight_lr=0.2, cohort=5), 150) > afl - 0.003
    assert worst(FedAvg(lr=0.1), 500) < afl - 0.003
