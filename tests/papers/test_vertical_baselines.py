"""Conjugate and optimistic gradients over columns: listings, solutions, and what they send."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import EGVFL, VerticalCG, VerticalGD, VerticalOGDA
from fedloom.algorithms.vertical import vertical_ogda
from fedloom.algorithms.vertical.scaling import Constants
from papers import vertical, vertical_baselines

DATA = vertical.Columns()
PARTIES = fl.data.from_parties(DATA.blocks, DATA.b)
PROBLEM = fl.problems.Vertical(l2=DATA.l2)
STEP, BYTES = 0.1, 8
WIDTH = sum(DATA.widths)


def simulate(method, rounds, problem=PROBLEM, parties=PARTIES):
    return fl.simulate(
        method, problem, parties, rounds=rounds, eval_every=rounds, precision="float64", metrics=()
    )


def joined(model):
    return np.concatenate([np.ravel(model[f"party {i}"]) for i in range(DATA.n)])


def close(got, expected, tolerance=1e-12):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rounds", [1, 4])
def test_conjugate_gradients_are_those_of_the_textbook(rounds, double):
    expected = vertical_baselines.conjugate_gradients(DATA, rounds)
    found = simulate(VerticalCG(), rounds)
    close(joined(found.model), expected)
    close(found.state.hub.scores, DATA.whole @ expected)


def test_conjugate_gradients_end_after_as_many_rounds_as_columns_and_stay(double):
    assert np.abs(joined(simulate(VerticalCG(), WIDTH - 1).model) - DATA.ridge()).max() > 1e-2
    close(joined(simulate(VerticalCG(), WIDTH).model), DATA.ridge())
    close(joined(simulate(VerticalCG(), 2000).model), DATA.ridge())


def test_conjugate_gradients_stay_where_rounding_is_all_that_is_left(double):
    """With one column the first round ends; all after it are of gradients that are rounding."""
    for seed in range(60):
        data = vertical.Columns(rows=5, widths=(1,), seed=seed)
        parties = fl.data.from_parties(data.blocks, data.b)
        problem = fl.problems.Vertical(l2=data.l2)
        close(np.ravel(simulate(VerticalCG(), 8, problem, parties).model["party 0"]), data.ridge())


def test_conjugate_gradients_minimise_the_mean_too(double):
    problem = fl.problems.Vertical(l2=DATA.l2 / DATA.s, mean=True)
    close(joined(simulate(VerticalCG(), WIDTH, problem).model), DATA.ridge())


def test_labels_of_zero_leave_nothing_to_do(double):
    nothing = fl.data.from_parties(DATA.blocks, np.zeros(DATA.s))
    assert not joined(simulate(VerticalCG(), 3, parties=nothing).model).any()


def test_a_round_of_conjugate_gradients_sends_two_numbers_more_than_one_of_descent(double):
    """And the opening is one exchange, where a step size by theory takes a dozen."""
    rounds = 3
    found, plain = simulate(VerticalCG(), rounds), simulate(VerticalGD(step=0.03), rounds)
    exchange = DATA.n * BYTES * (DATA.s + 2)
    for way in ("bytes_up", "bytes_down"):
        assert found.rows[0][way] == exchange
        assert found.final[way] == (rounds + 1) * exchange
        assert plain.final[way] == rounds * DATA.n * BYTES * DATA.s


def test_conjugate_gradients_need_the_squared_loss(double):
    parties = fl.data.from_parties(DATA.blocks, np.arange(DATA.s) % 2)
    with pytest.raises(fl.FedloomError, match=r"VerticalCG: loss must be 'squared'.*VerticalAGD"):
        simulate(VerticalCG(), 1, fl.problems.Vertical(loss="logistic"), parties)


def test_optimistic_gradients_follow_their_listing_to_the_solution(double):
    found = simulate(VerticalOGDA(step=STEP), 6)
    shares, slack = vertical_baselines.optimistic(DATA, STEP, 6)
    close(joined(found.model), shares)
    close(found.state.hub.slack, slack)
    close(joined(simulate(VerticalOGDA(step=STEP), 2500).model), DATA.ridge())


def test_optimistic_gradients_send_half_of_what_extragradient_sends(double):
    found, twice = simulate(VerticalOGDA(step=STEP), 6), simulate(EGVFL(step=STEP), 6)
    for way in ("bytes_up", "bytes_down"):
        assert 2 * found.final[way] == twice.final[way] > 0


def test_the_beta_trick_of_optimistic_gradients(double):
    method = VerticalOGDA(step=STEP, beta_trick=True, eigenvalue="bound")
    found = simulate(method, 6)
    hub = found.state.hub
    total = sum(np.linalg.eigvalsh(a.T @ a)[-1] for a in DATA.blocks)
    close(hub.scale.beta, total ** (-1 / 6), 1e-6)  # found by iteration
    shares, slack = vertical_baselines.optimistic(DATA.scaled(float(hub.scale.beta)), STEP, 6)
    close(joined(found.model), shares)
    close(method.model(hub, None), slack / hub.scale.beta)


@pytest.mark.parametrize(("beta", "l2"), [(1.0, 0.5), (0.2, 0.5), (3.0, 0.5), (1.0, 9.0)])
def test_the_step_of_theory_is_below_half_of_one_over_lipschitz(beta, l2, double):
    data = vertical.Columns(l2=l2).scaled(beta)
    joint = np.linalg.eigvalsh(data.whole.T @ data.whole)[-1]
    constants = Constants(joint, joint, joint, 1 / beta**2, l2, data.n)
    step = float(vertical_ogda.theory(constants))
    close(step, 0.5 / (max(l2, 1 / beta**2) + np.sqrt(1 + joint)))
    assert 0.1 < step * vertical_baselines.lipschitz(data) < 0.5
