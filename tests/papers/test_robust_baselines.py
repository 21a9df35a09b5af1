"""SCAFF-PD and TERM against their transcriptions, and what the papers say of them."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import TERM, FedAvg, ScaffPD
from fedloom.errors import ParameterError
from papers import robust
from papers.reference import Draws
from papers.test_averaging import CLIENTS, close, simulate

BY_SIZE = fl.problems.Logistic(l2=0.1, weights="size")
SIZES = [6, 9, 6, 9]


@pytest.mark.parametrize("mu", [0.0, 0.6])
def test_scaff_pd_follows_its_listing(mu, double):
    options = {"lr": 0.3, "weight_lr": 0.4, "mu": mu, "server_lr": 0.8, "extrapolation": 0.7}
    got = simulate(ScaffPD(**options, local_steps=4))
    x, lam, c_i = robust.scaff_pd(CLIENTS, Draws(CLIENTS, 4), **options, steps=4, rounds=5)
    close(got.model, x)
    close(got.state.hub.weights, lam)
    close(got.state.clients[0].control, c_i)
    close(got.info[-1].weights, lam)


@pytest.mark.parametrize(
    ("tilt", "cohort", "tracking"), [(2.0, 3, 0.3), (2.0, 3, None), (-2.0, None, None)]
)
def test_term_follows_its_listing(tilt, cohort, tracking, double):
    options = {"lr": 0.3, "tilt": tilt, "cohort": cohort, "tracking": tracking}
    got = simulate(TERM(**options, local_steps=4), problem=BY_SIZE)
    x, risk = robust.term(CLIENTS, Draws(CLIENTS, 4), **options, steps=4, rounds=5, weights=SIZES)
    close(got.model, x)
    close(got.state.hub.level, risk)


def test_term_hardly_tilted_is_fedavg(double):
    options = {"lr": 0.3, "local_steps": 4, "cohort": 3}
    close(simulate(TERM(tilt=1e-9, **options)).model, simulate(FedAvg(**options)).model, 1e-7)


def test_a_steep_tilt_goes_on_from_losses_that_are_far_apart():
    """Exponents of hundreds: one client alone would be infinite in single precision."""
    apart = fl.data.from_arrays([(x * 30, y) for x, y in CLIENTS.parts()])
    method = TERM(lr=0.01, tilt=300.0, local_steps=2)
    got = fl.simulate(method, fl.problems.Logistic(l2=0.1), apart, rounds=20)
    assert np.isfinite(got.model).all() and np.isfinite(got.state.hub.level)


def test_a_tilt_of_zero_is_refused_in_words():
    for wrong in (0, 0.0, True, "much"):
        with pytest.raises(ParameterError, match="tilt must be a number other than 0; got"):
            TERM(lr=0.1, tilt=wrong)
