"""Local optimisers: their formulas by hand, in two methods, and who takes one."""

import dataclasses

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.checking import compilation
from fedloom.checking.case import Case
from fedloom.checking.federations import trial
from fedloom.errors import ParameterError
from fedloom.optimisers import SGD, Adam, AdamW, Momentum
from papers import averaging
from papers.reference import Draws
from papers.test_averaging import CLIENTS, close, simulate
from tiers import in_turn


def clipped(gradient, most):
    return gradient * min(1.0, most / np.linalg.norm(gradient))


def sgd():
    return lambda w, g, lr: w - lr * (clipped(g, 0.2) + 0.3 * w)


def momentum(nesterov):
    def made():
        m = 0.0

        def move(w, g, lr):
            nonlocal m
            m = 0.8 * m + g
            return w - lr * ((g + 0.8 * m if nesterov else m) + 0.1 * w)

        return move

    return made


def adam(weight_decay=0.0, most=np.inf):
    def made():
        m = v = t = 0

        def move(w, g, lr):
            nonlocal m, v, t
            g, t = clipped(g, most), t + 1
            m, v = 0.7 * m + 0.3 * g, 0.9 * v + 0.1 * g * g
            direction = (m / (1 - 0.7**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-3)
            return w - lr * (direction + weight_decay * w)

        return move

    return made


OPTIMISERS = {
    "sgd": (SGD(weight_decay=0.3, clip=0.2), sgd),
    "momentum": (Momentum(0.8, weight_decay=0.1), momentum(nesterov=False)),
    "nesterov": (Momentum(0.8, nesterov=True, weight_decay=0.1), momentum(nesterov=True)),
    "adam": (Adam(0.7, 0.9, 1e-3), adam()),
    "adamw": (AdamW(0.7, 0.9, 1e-3, weight_decay=0.2, clip=0.3), adam(0.2, 0.3)),
}
OPTIONS = {"lr": 0.1, "cohort": 3}


def with_optimiser(kind):
    """Options of a method, and those of its transcription."""
    optimiser, by_hand = OPTIMISERS[kind]
    return (
        OPTIONS | {"local_steps": 4, "optimiser": optimiser},
        OPTIONS | {"steps": 4, "rounds": 3, "optimiser": by_hand},
    )


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_fedavg_steps_as_the_optimiser_says(kind, double):
    settings, own = with_optimiser(kind)
    got = simulate(fl.algorithms.FedAvg(**settings), rounds=3)
    close(got.model, averaging.fedavg(CLIENTS, Draws(CLIENTS, 4), **own))


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_scaffold_steps_as_the_optimiser_says(kind, double):
    settings, own = with_optimiser(kind)
    got = simulate(fl.algorithms.Scaffold(**settings), rounds=3)
    x, c, c_i = averaging.scaffold(CLIENTS, Draws(CLIENTS, 4), **own)
    close(got.model, x)
    close(got.state.hub.control, c)
    close(got.state.clients[0].control, c_i)


@pytest.mark.parametrize(
    "key",
    in_turn(
        ["local_training", "mutual_learning", "pfedme", "apfl", "drfa"],
        ["mutual_learning", "pfedme", "drfa"],
    ),
)
def test_methods_with_loops_of_their_own_remember_within_a_round(key):
    """Momentum of 0 is no momentum, and any other moves every model elsewhere."""
    entry = CATALOGUE[key]

    def models(optimiser):
        method = dataclasses.replace(entry.example(), optimiser=optimiser)
        state = Case(method, trial(entry.kind), rounds=2).simulate().state
        kept = [leaf for group in state.clients for leaf in jax.tree.leaves(group)]
        return [leaf for leaf in [state.hub.model, *kept] if leaf.ndim > 0 and leaf.dtype == "f8"]

    plain, none, much = models(SGD()), models(Momentum(0.0)), models(Momentum(0.9))
    moved = plain if key != "local_training" else plain[1:]  # its hub's model stays
    for before, same in zip(plain, none, strict=True):
        close(before, same)
    others = much[len(much) - len(moved) :]
    assert not any(np.allclose(a, b, rtol=1e-4) for a, b in zip(moved, others, strict=True))


def test_other_numbers_of_an_optimiser_need_no_new_program():
    def method(b1, decay, lr):
        return fl.algorithms.FedAvg(lr=lr, local_steps=2, optimiser=AdamW(b1, weight_decay=decay))

    simulate(method(0.9, 0.1, 0.1))
    with compilation._readings(fl.algorithms.FedAvg) as readings:
        simulate(method(0.5, 0.0, 0.2))
        assert not readings


def test_methods_whose_step_is_a_gradient_step_take_one():
    taking = [k for k, e in CATALOGUE.items() if getattr(e.example(), "optimiser", 0) == SGD()]
    assert sorted(taking) == sorted(
        "fedavg fedprox scaffold fedavgm fedadagrad fedadam fedyogi feddyn drfa drfa_ga drfa_prox "
        "scaff_pd term fedcanon local_training mutual_learning per_fedavg pfedme fine_tuning ditto "
        "apfl fedper fedrep fedbn split_training cvfl ef_vfl".split()
    )


def test_what_is_no_optimiser_is_refused_in_words():
    with pytest.raises(ParameterError, match="optimiser must be an optimiser; got 'adam'"):
        fl.algorithms.FedAvg(lr=0.1, optimiser="adam")
    with pytest.raises(ParameterError, match="momentum must be a number from 0 to below 1; got 1"):
        Momentum(1.0)
    with pytest.raises(ParameterError, match="FedMid has no parameter 'optimiser'"):
        fl.algorithms.FedMid(lr=0.1, optimiser=Adam())
