"""Averaging with a thoughtful hub or thoughtful clients, against its transcriptions."""

import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.errors import ParameterError
from fedloom.population import assemble
from fedloom.protocol import Cohort, Replies
from papers import averaging_baselines as baselines
from papers.reference import Draws
from papers.test_averaging import CLIENTS, FEDERATION, close, optimum, simulate

BY_SIZE = fl.problems.Logistic(l2=0.1, weights="size")
SIZES = [6, 9, 6, 9]
LOCAL = {"lr": 0.3, "cohort": 3}
ADAPTIVE = {"server_lr": 0.2, "b1": 0.6, "tau": 0.05}
HUBS = {
    "avgm": fl.algorithms.FedAvgM(**LOCAL, local_steps=4, server_lr=0.7, momentum=0.6),
    "adagrad": fl.algorithms.FedAdagrad(**LOCAL, local_steps=4, **ADAPTIVE),
    "adam": fl.algorithms.FedAdam(**LOCAL, local_steps=4, **ADAPTIVE, b2=0.8),
    "yogi": fl.algorithms.FedYogi(**LOCAL, local_steps=4, **ADAPTIVE, b2=0.8),
}


def fields(method, *names):
    return {name: getattr(method, name) for name in names if hasattr(method, name)}


@pytest.mark.parametrize("rule", HUBS)
def test_optimisers_of_the_hub_follow_their_listing(rule, double):
    got = simulate(HUBS[rule], problem=BY_SIZE)
    names = ("lr", "cohort", "server_lr", "momentum", "b1", "b2", "tau")
    x, m, v = baselines.fedopt(
        CLIENTS, Draws(CLIENTS, 4), rule, steps=4, rounds=5, weights=SIZES,
        **fields(HUBS[rule], *names),
    )  # fmt: skip
    close(got.model, x)
    close(got.state.hub[1], m)
    if rule != "avgm":
        close(got.state.hub.square, v)


def test_fedavgm_without_momentum_is_fedavg(double):
    """Exactly: the same bits."""
    plain = simulate(fl.algorithms.FedAvg(**LOCAL, local_steps=4)).model
    still = simulate(fl.algorithms.FedAvgM(**LOCAL, local_steps=4, momentum=0.0)).model
    np.testing.assert_array_equal(still, plain)


@pytest.mark.parametrize("rule", HUBS)
def test_optimisers_of_the_hub_reach_the_optimum_with_one_full_step(rule, double):
    """One step a round is the optimiser on the pooled problem, in which clients do not drift."""
    slow = {"server_lr": 0.05} if rule in ("adam", "yogi") else {}
    method = fl.algorithms.catalogue.CATALOGUE[f"fed{rule}"].cls(lr=0.3, local_steps=1, **slow)
    got = simulate(method, rounds=1500, batch_size=None).model
    close(got, optimum(), 1e-6)


@pytest.mark.parametrize("rule", HUBS)
def test_a_round_that_nobody_answers_leaves_the_hub_as_it_is(rule):
    """Momentum too, which would go on by itself."""
    fed = assemble(BY_SIZE, FEDERATION, 4, "float32").fed
    kind = type(HUBS[rule].init_hub(fed, draws.key(0)))
    hub = kind(*[np.ones(CLIENTS.d, np.float32)] * len(kind._fields))
    steps = HUBS[rule].round(hub, fed, draws.key(1))
    asked = next(steps).to
    with pytest.raises(StopIteration) as end:
        steps.send(Replies(np.ones((3, 3)), Cohort(asked.ids, np.zeros(3, bool))))
    for before, after in zip(hub, end.value.value[0], strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_memory_that_never_forgets_is_refused():
    with pytest.raises(ParameterError, match="b2 must be a number from 0 to below 1; got 1"):
        fl.algorithms.FedAdam(lr=0.1, b2=1)
