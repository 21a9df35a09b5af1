"""The minimax family against its transcriptions, on the trial of the laws."""

import dataclasses

import jax
import numpy as np
import pytest

from fedloom.algorithms import Unreliable
from fedloom.algorithms.catalogue import entry
from laws.trials import BATCH, ROUNDS, run, trial
from papers import minimax, minimax_baselines
from papers.minimax import AUCClients, Drawn

L1 = 0.02


@pytest.fixture(scope="module")
def clients():
    return AUCClients(trial("saddle").clients, L1)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def vector(model):
    return np.concatenate([model["bias"], model["w"]])


@pytest.mark.parametrize("key", ["ffmdr", "ffmdr_consensus"])
def test_ffmdr_follows_its_listing(key, clients, double):
    chosen = entry(key)
    got = run(chosen)
    z, w, y, spent = minimax.ffmdr(
        clients, Drawn(clients, BATCH), rounds=ROUNDS, consensus=key == "ffmdr_consensus",
        **chosen.trial,
    )  # fmt: skip
    (state,) = got.state.clients
    point = state.point if key == "ffmdr" else state.point.x
    close(vector(got.model), z)
    close(point, w)
    close(state.dual if key == "ffmdr" else state.point.y, y)
    np.testing.assert_array_equal(got.info[-1].iterations, spent)


LISTINGS = {
    "local_sgda": (minimax.local_sgda, {}),
    "local_sgda_plus": (minimax.fedsgda_plus, {}),
    "momentum_local_sgda": (minimax.momentum_local_sgda, {}),
    "fed_norm_sgda": (minimax.fed_norm_sgda, {"local_steps": None, "epochs": 2}),
    "fedsgda_plus": (minimax.fedsgda_plus, {}),
    "fedsgda_m": (minimax.fedsgda_m, {}),
    "codasca": (minimax.codasca, {}),
    "fednest": (minimax.fednest, {}),
    "optimistic_local_sgda": (minimax_baselines.optimistic_local_sgda, {}),
    "fess_gda": (minimax_baselines.fess_gda, {}),
    "fedualex": (minimax_baselines.fedualex, {}),
}


@pytest.mark.parametrize("key", LISTINGS)
def test_baselines_follow_their_listings(key, clients, double):
    chosen, (listing, changed) = entry(key), LISTINGS[key]
    options = {n: v for n, v in (chosen.trial | changed).items() if v is not None}
    u, alpha = listing(clients, Drawn(clients, BATCH), rounds=ROUNDS, **options)
    got = run(chosen)
    close(vector(got.model), u)
    hub = got.state.hub
    close((hub.point if hasattr(hub, "point") else hub).y, alpha)


EVERYONE_IS_ASKED = ["local_sgda_plus", "momentum_local_sgda", "fedsgda_plus", "fedsgda_m"]


@pytest.mark.parametrize("key", EVERYONE_IS_ASKED)
def test_the_mean_is_over_those_who_are_there(key, clients, double):
    """Where some are away in a round, those who are there count for them all."""
    chosen, drawn = entry(key), Drawn(clients, BATCH, drop=0.4)
    present = [len(drawn.there(r)) for r in range(1, ROUNDS + 1)]
    assert min(present) > 0 and any(0 < count < clients.n for count in present)
    u, alpha = LISTINGS[key][0](clients, drawn, rounds=ROUNDS, **chosen.trial)
    got = run(chosen, method=Unreliable(chosen.example(), drop=0.4))
    close(vector(got.model), u)
    close(got.state.hub.point.y, alpha)


def test_subgradients_instead_of_the_hubs_proximal_map(clients, double):
    chosen = entry("local_sgda")
    method = dataclasses.replace(chosen.example(), regularise="subgradient")
    expected = minimax.local_sgda(
        clients, Drawn(clients, BATCH), rounds=ROUNDS, sub=True, **chosen.trial
    )
    close(vector(run(chosen, method=method).model), expected[0])


def test_gradients_of_auc_are_those_by_hand(clients, double):
    from fedloom.population import assemble

    tried = trial("saddle")
    federation = assemble(tried.problem, tried.clients, None, "float64")
    rng = np.random.default_rng(1)
    u, alpha = rng.normal(size=clients.d), rng.normal(size=1)
    for i in range(clients.n):
        f = federation.groups[0].objective(i)
        jax.tree.map(close, f.full_grads(u, alpha), clients.grads(i, u, alpha))
        close(f.full_value(u, alpha), clients.value(i, u, alpha))
