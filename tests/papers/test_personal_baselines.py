"""Personal baselines against their transcriptions, and where they end."""

import jax
import numpy as np

import fedloom as fl
from fedloom.algorithms import Ditto, FedAvg, FineTuning
from papers import averaging, personal_baselines
from papers.reference import Draws
from papers.test_personal import (
    COUNTS,
    GOLDEN,
    LEAST,
    LINEAR,
    LOGISTIC,
    REGRESSION,
    close,
    quadratic,
    simulate,
)

REGULARISED = fl.problems.Logistic(l2=0.1)


def deployed(method, problem, clients, result):
    """Every client's linear model as it would take it away, where a bias of 0 is added."""
    taken = fl.deploy.take_all(method, problem, clients, result)
    return [np.ravel(jax.tree.leaves(one.arrays)[-1]) for one in taken]


def test_fine_tuning_trains_as_fedavg_and_deploys_what_its_steps_make_of_it(double):
    method = FineTuning(server_lr=0.9, personal_lr=0.3, personal_steps=2, **COUNTS)
    got = simulate(method, REGULARISED, LINEAR, metrics=("loss",))
    w = averaging.fedavg(LOGISTIC, Draws(LOGISTIC, 4), lr=0.2, server_lr=0.9, **GOLDEN)
    own = personal_baselines.fine_tuned(LOGISTIC, w, lr=0.3, steps=2)
    close(got.model, w)
    close(deployed(method, REGULARISED, LINEAR, got), own)
    plain = simulate(FedAvg(server_lr=0.9, **COUNTS), REGULARISED, LINEAR, metrics=("loss",))
    assert (got.client_metrics["loss"] < plain.client_metrics["loss"]).all()


def test_ditto_follows_its_listing(double):
    """Also where a client has not taken part: it has the common model until then."""
    options = {"penalty": 0.6, "personal_lr": 0.3, "personal_steps": 2}
    method = Ditto(**options, **COUNTS)
    for rounds in (1, 4):
        counts = GOLDEN | {"rounds": rounds}
        w, v = personal_baselines.ditto(LOGISTIC, Draws(LOGISTIC, 4), lr=0.2, **options, **counts)
        got = simulate(method, REGULARISED, LINEAR, rounds=rounds)
        close(got.model, w)
        assert len(v) == (3 if rounds == 1 else 4)
        own = deployed(method, REGULARISED, LINEAR, got)
        for i in range(LOGISTIC.n):
            close(own[i], v.get(i, w))


def test_ditto_reaches_the_minimisers_near_the_common_optimum(double):
    """v_i = (H_i + penalty)^-1 (b_i + penalty w), with w the optimum of the mean."""
    method = Ditto(lr=0.1, penalty=2.0, local_steps=1, personal_steps=2)
    got = simulate(method, LEAST, REGRESSION, rounds=2000, batch_size=None)
    hessians, pulls = zip(*map(quadratic, range(4)), strict=True)
    w = np.linalg.solve(np.mean(hessians, axis=0), np.mean(pulls, axis=0))
    close(got.model, w, 1e-9)
    for v, h, b in zip(got.state.clients[0].model, hessians, pulls, strict=True):
        close(v, np.linalg.solve(h + 2 * np.eye(3), b + 2 * w), 1e-9)
