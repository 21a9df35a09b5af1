"""Baselines of the averaging family against their transcriptions."""

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.algorithms.averaging.scaffnew import geometric
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


def test_fednova_follows_its_listing(double):
    """Batches of 4: two passes over 6 and 9 rows are 4 and 6 steps."""
    method = fl.algorithms.FedNova(**LOCAL, local_steps="2 epochs", server_lr=0.8, momentum=0.6)
    expected = baselines.fednova(
        CLIENTS, Draws(CLIENTS, 4), **LOCAL, taken=[4, 6, 4, 6], rounds=5, server_lr=0.8,
        momentum=0.6, weights=SIZES,
    )  # fmt: skip
    close(simulate(method, problem=BY_SIZE).model, expected)


def test_fednova_with_equal_steps_is_fedavg(double):
    plain = simulate(fl.algorithms.FedAvg(**LOCAL, local_steps=4)).model
    close(simulate(fl.algorithms.FedNova(**LOCAL, local_steps=4)).model, plain)


@pytest.mark.parametrize("cohort", [3, None])
def test_feddyn_follows_its_listing(cohort, double):
    method = fl.algorithms.FedDyn(lr=0.3, alpha=0.7, local_steps=4, cohort=cohort)
    got = simulate(method, problem=BY_SIZE)
    theta, h, gradients = baselines.feddyn(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, alpha=0.7, steps=4, cohort=cohort, rounds=5,
        weights=SIZES,
    )  # fmt: skip
    close(got.model, theta)
    close(got.state.hub.gradient, h)
    close(got.state.clients[0].gradient, gradients)
    close(got.state.hub.gradient, np.array(SIZES) / 30 @ got.state.clients[0].gradient)


@pytest.mark.parametrize("cohort", [3, None])
def test_scaffnew_follows_its_listing(cohort, double):
    got = simulate(fl.algorithms.Scaffnew(lr=0.3, p=0.4, cohort=cohort), problem=BY_SIZE)
    drawn = Draws(CLIENTS, 4)
    x, h = baselines.scaffnew(
        CLIENTS,
        drawn,
        baselines.tosses(drawn, 0.4),
        lr=0.3,
        p=0.4,
        cohort=cohort,
        rounds=5,
        weights=SIZES,
    )
    close(got.model, x)
    close(got.state.clients[0].control - got.state.hub.control, h)


@pytest.mark.parametrize("p", [1.0, 0.3])
def test_the_coin_of_scaffnew_falls_as_often_as_stated(p):
    drawn = jax.vmap(lambda key: geometric(key, p))(jax.random.split(draws.key(0), 20_000))
    found = np.bincount(np.asarray(drawn), minlength=4)[:4] / 20_000
    np.testing.assert_allclose(found, [0, p, p * (1 - p), p * (1 - p) ** 2], atol=0.01)


@pytest.mark.parametrize(
    "method",
    [
        fl.algorithms.FedDyn(lr=0.2, alpha=0.5, local_steps=10),
        fl.algorithms.Scaffnew(lr=0.2, p=0.1),
    ],
    ids=["feddyn", "scaffnew"],
)
def test_clients_that_correct_themselves_reach_the_optimum(method, double):
    close(simulate(method, rounds=600, batch_size=None).model, optimum(), 1e-9)
