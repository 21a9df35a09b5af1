"""Where methods end when not everyone takes part, on problems with known solutions.

Two clients with 2 and 20 rows want quite different models, one of them is asked in a round, and
many runs are averaged: with unlike weights, a mean over whoever was drawn ends somewhere else. Each
method has to end at the solution of the problem that it states, for equal weights and for weights
by size, or where its docstring says.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import algorithms as fa
from fedloom import draws
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.wrappers.base import layers
from fedloom.population import assemble
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from laws.trials import SOME
from papers.limits import (
    CLASSES,
    CLOSE,
    CONCAVE,
    CONVEX,
    COUPLINGS,
    DUAL_SLOPES,
    EQUAL,
    GUIDE,
    L1,
    L2,
    OWN_L2,
    PARTS,
    SIZE,
    SIZES,
    SLOPES,
    adapted,
    alone,
    averaged,
    composite,
    distilled,
    enveloped,
    fair,
    mutual,
    near_averaged,
    near_common,
    own_biases,
    robust,
    saddle,
    separate,
    tilted,
)

PLAN = Plan(None, None)
LANES, ROUNDS = 32, 1000
# Of 32 runs, the models of 500 rounds are averaged. Where draws move the model, the mean of that is
# known to about 0.01, and the two problems are at least 0.5 apart.
DRAWN, EXACT = 0.05, 1e-6
# The federations.


def _saddle_rows():
    for m, k, b, c in zip(SIZES, COUPLINGS, SLOPES, DUAL_SLOPES, strict=True):
        yield np.tile(k, (m, 1, 1)), np.tile(np.concatenate([b, c]), (m, 1))


_L1 = fl.problems.L1(L1)
_LINEAR = fl.models.MLP(hidden=())
WORLDS = {
    "smooth": (fl.problems.LeastSquares(l2=L2), fl.data.from_arrays(PARTS)),
    "composite": (fl.problems.LeastSquares(l2=L2, regulariser=_L1), fl.data.from_arrays(PARTS)),
    "saddle": (
        fl.problems.Bilinear(convexity=CONVEX, concavity=CONCAVE, regulariser=_L1),
        fl.data.from_arrays(list(_saddle_rows())),
    ),
    "personal": (
        fl.problems.Personal(_LINEAR, _LINEAR, l2=OWN_L2),
        fl.data.from_arrays(CLASSES),
    ),
}


def model(method, hub, clients, fed):
    return method.model(hub, fed)


def contrast(method, hub, clients, fed):
    """By how much the common model prefers one class; it does not matter where both start."""
    scores = method.model(hub, fed).reshape(3, 2)
    return scores[:, 1] - scores[:, 0]


def own_models(method, hub, clients, fed):
    return jax.tree.leaves(clients)[0].ravel()


class Case(NamedTuple):
    """A method in which not everyone takes part, and where it must end, for given weights."""

    method: Any
    world: str
    limit: Callable[[np.ndarray], np.ndarray]
    tolerance: float = DRAWN
    batch_size: int | None = None
    of: Callable = model


def away(method):
    return fa.Unreliable(method, drop=0.4)


_STEPS = {"lr": 0.02, "dual_lr": 0.02, "local_steps": 1}
_ADAPTIVE = {"lr": 0.2, "local_steps": 1, "server_lr": 0.02, "tau": 0.1, "cohort": 1}
_ROBUST = {"lr": 0.02, "weight_lr": 0.005, "local_steps": 1}
_PERSONAL = {"lr": 0.3, "local_steps": 1, "cohort": 1}
_PARTS = {"lr": 0.05, "local_steps": 1, "cohort": 1, "own": "bias"}
_SPLIT = {"lr": 0.3, "local_steps": 30}

# By the catalogue's key, with what is special about the case behind a comma.
CASES = {
    "fedavg": Case(fa.FedAvg(lr=0.02, local_steps=1, cohort=1), "smooth", averaged),
    "fedavg, away": Case(away(fa.FedAvg(lr=0.02, local_steps=1)), "smooth", averaged),
    "fedprox": Case(fa.FedProx(lr=0.02, local_steps=2, cohort=1), "smooth", averaged),
    "fedprox, by weight": Case(
        fa.FedProx(lr=0.02, local_steps=2, cohort=1, sampling="by_weight"), "smooth", averaged
    ),
    "scaffold": Case(fa.Scaffold(lr=0.1, local_steps=3, cohort=1), "smooth", averaged, EXACT),
    "fedavgm": Case(
        fa.FedAvgM(lr=0.02, local_steps=1, momentum=0.5, cohort=1), "smooth", averaged
    ),
    "fedadagrad": Case(
        fa.FedAdagrad(**_ADAPTIVE | {"server_lr": 0.5}), "smooth", averaged
    ),
    "fedadam": Case(fa.FedAdam(**_ADAPTIVE, b2=0.999), "smooth", averaged),
    "fedyogi": Case(fa.FedYogi(**_ADAPTIVE, b2=0.999), "smooth", averaged),
    "fednova": Case(  # batches of 2 rows: clients take 1 and 10 steps
        fa.FedNova(lr=0.005, cohort=1), "smooth", averaged, batch_size=2
    ),
    "feddyn": Case(fa.FedDyn(lr=0.2, alpha=1.0, cohort=1), "smooth", averaged, EXACT),
    "scaffnew": Case(fa.Scaffnew(lr=0.1, p=0.3, cohort=1), "smooth", averaged, EXACT),
    "decoupled_prox": Case(
        fa.DecoupledProx(lr=0.02, local_steps=1, cohort=1), "composite", composite
    ),
    "decoupled_prox, away": Case(
        fa.Unreliable(fa.DecoupledProx(lr=0.1, local_steps=3, cohort=2), drop=0.4, late=0.2),
        "composite",
        composite,
        EXACT,
    ),
    "fedmid": Case(
        fa.FedMid(lr=0.02, local_steps=1, cohort=1), "composite", lambda a: composite(a, times=2)
    ),
    "fedmid, away": Case(
        away(fa.FedMid(lr=0.02, local_steps=1, server_prox=False)), "composite", composite
    ),
    "feddualavg": Case(
        away(fa.FedDualAvg(lr=0.02, local_steps=1, cohort=1)), "composite", composite
    ),
    "fast_fedda": Case(
        away(fa.FastFedDA(mu=0.5, local_steps=1, cohort=1)), "composite", composite
    ),
    "feddr": Case(fa.FedDR(step=1.0, **_SPLIT, cohort=1), "composite", composite, EXACT),
    "fedcanon": Case(
        away(fa.FedCanon(lr=0.05, local_steps=3, cohort=1)), "composite", composite, EXACT
    ),
    "fedadmm": Case(fa.FedADMM(rho=1.0, **_SPLIT, cohort=1), "composite", composite, EXACT),
    "ffmdr": Case(fa.FFMDR(beta=0.7, solver=fa.Exact(), cohort=1), "saddle", separate, EXACT),
    "ffmdr, attendance": Case(
        fa.FFMDR(beta=0.7, solver=fa.Exact(), attendance=(0.3, 0.9)), "saddle", separate, EXACT
    ),
    "ffmdr_consensus": Case(
        fa.FFMDRConsensus(beta=0.7, solver=fa.Exact(), cohort=1), "saddle", saddle, EXACT
    ),
    "ffmdr_consensus, attendance": Case(
        fa.FFMDRConsensus(beta=0.7, solver=fa.Exact(), attendance=0.4), "saddle", saddle, EXACT
    ),
    "local_sgda": Case(away(fa.LocalSGDA(**_STEPS, cohort=1)), "saddle", saddle),
    "local_sgda_plus": Case(away(fa.LocalSGDAPlus(**_STEPS)), "saddle", saddle),
    "momentum_local_sgda": Case(away(fa.MomentumLocalSGDA(**_STEPS)), "saddle", saddle),
    "fed_norm_sgda": Case(  # batches of 2 rows: clients take 1 and 10 steps
        fa.FedNormSGDA(lr=0.005, dual_lr=0.005, local_steps="1 epoch", cohort=1), "saddle", saddle,
        batch_size=2,
    ),
    "fedsgda_plus": Case(away(fa.FedSGDAPlus(**_STEPS)), "saddle", saddle),
    "fedsgda_m": Case(
        away(fa.FedSGDAM(**_STEPS, momentum=0.5, dual_momentum=0.5)), "saddle", saddle
    ),
    "codasca": Case(
        fa.CODASCA(**_STEPS | {"local_steps": 3}, cohort=1, regularise="subgradient"),
        "saddle", saddle, EXACT,
    ),
    "optimistic_local_sgda": Case(
        away(fa.OptimisticLocalSGDA(**_STEPS, cohort=1)), "saddle", saddle
    ),
    "fess_gda": Case(away(fa.FESSGDA(**_STEPS, cohort=1)), "saddle", saddle),
    "fedualex": Case(away(fa.FeDualEx(**_STEPS, cohort=1)), "saddle", saddle),
    "fednest": Case(fa.FedNest(**_STEPS | {"local_steps": 3}, cohort=1), "saddle", saddle),
    "afl": Case(away(fa.AFL(lr=0.02, weight_lr=0.005)), "smooth", robust),
    "drfa": Case(fa.DRFA(**_ROBUST, cohort=1), "smooth", robust),
    "drfa, uniform": Case(fa.DRFA(**_ROBUST, cohort=1, sampling="uniform"), "smooth", robust),
    "drfa_prox": Case(
        away(fa.DRFAProx(**_ROBUST, mu=4.0, cohort=1)), "smooth", lambda a: robust(a, mu=4.0), 0.02
    ),
    "drfa_ga": Case(
        away(fa.DRFAGA(**_ROBUST, mu=4.0, cohort=1)), "smooth", lambda a: robust(a, mu=4.0), 0.02
    ),
    "scaff_pd": Case(
        away(fa.ScaffPD(**_ROBUST, mu=4.0)), "smooth", lambda a: robust(a, mu=4.0), 0.02
    ),
    "scaff_pd, everyone": Case(
        fa.ScaffPD(lr=0.1, weight_lr=0.3, local_steps=3), "smooth", robust, 1e-5
    ),
    "term": Case(
        fa.TERM(lr=0.02, tilt=1.0, local_steps=1, cohort=1, tracking=0.02), "smooth",
        lambda a: tilted(a, 1),
    ),
    "term, everyone": Case(
        fa.TERM(lr=0.05, tilt=1.0, local_steps=1, cohort=2), "smooth", lambda a: tilted(a, 1), EXACT
    ),
    # Of a cohort of one the powers of the loss cancel, and with them the weights.
    "q_fedavg": Case(
        fa.QFedAvg(lr=0.02, q=1.0, local_steps=1, cohort=1), "smooth", lambda a: averaged(EQUAL)
    ),
    "q_fedsgd": Case(fa.QFedSGD(lr=0.02, q=1.0, cohort=1), "smooth", lambda a: averaged(EQUAL)),
    "q_fedsgd, by weight": Case(
        fa.QFedSGD(lr=0.02, q=1.0, cohort=1, sampling="by_weight"), "smooth", averaged
    ),
    "q_fedsgd, everyone": Case(
        fa.QFedSGD(lr=0.05, q=1.0, cohort=2), "smooth", lambda a: fair(a, 1), 1e-4
    ),
    "pfedme": Case(
        fa.PFedMe(lr=0.3, penalty=2.0, outer_lr=0.01, inner_steps=20, local_steps=1, cohort=1),
        "smooth", lambda a: enveloped(a, 2.0),
    ),
    "per_fedavg": Case(
        fa.PerFedAvg(lr=0.02, personal_lr=0.3, local_steps=1, cohort=1), "smooth",
        lambda a: adapted(a, 0.3),
    ),
    "fine_tuning": Case(fa.FineTuning(lr=0.02, local_steps=1, cohort=1), "smooth", averaged),
    "ditto": Case(
        fa.Ditto(lr=0.02, penalty=1.0, local_steps=1, personal_steps=1, cohort=1), "smooth",
        lambda a: near_averaged(a, 1.0), of=own_models,
    ),
    "apfl": Case(fa.APFL(lr=0.02, local_steps=1, cohort=1), "smooth", averaged),
    "fedper": Case(fa.FedPer(**_PARTS), "personal", own_biases, of=contrast),
    "fedrep": Case(fa.FedRep(**_PARTS, head_steps=1), "personal", own_biases, of=contrast),
    "fedbn": Case(fa.FedBN(**_PARTS), "personal", own_biases, of=contrast),
    "quped": Case(
        fa.QuPeD(**_PERSONAL, common_lr=0.3, guidance=GUIDE), "personal", distilled, of=contrast
    ),
    "qupel": Case(
        fa.QuPeL(**_PERSONAL, common_lr=0.1, closeness=CLOSE), "personal", near_common, of=contrast
    ),
    "mutual_learning": Case(
        fa.MutualLearning(**_PERSONAL, guidance=GUIDE, common_guidance=GUIDE), "personal", mutual,
        of=contrast,
    ),
    "local_training": Case(
        fa.LocalTraining(**_PERSONAL), "personal", alone, EXACT, of=own_models
    ),
    "quantised_training": Case(
        fa.QuantisedTraining(**_PERSONAL, quantise=None), "personal", alone, EXACT, of=own_models
    ),
}  # fmt: skip


@functools.partial(jax.jit, static_argnames=("rounds", "of"))
def play(method, federation, weights, seeds, rounds, of):
    """The mean over the second half of the rounds, for each weighting and seed, in one program."""

    def one(weights, seed):
        fed, root = dataclasses.replace(federation.fed, weights=weights), draws.key(seed)
        world = dataclasses.replace(federation, fed=fed)

        def go_on(round, carried):
            hub, clients, total = carried
            steps = method.round(hub, fed, draws.hub_key(root, round))
            hub, clients, *_ = program.drive(steps, method, world, clients, root, round, PLAN)
            now = of(method, hub, clients, fed)
            return hub, clients, total + jnp.where(round > rounds // 2, now, 0)

        hub, clients, _ = program.opening(method, world, root, PLAN)
        begun = (hub, clients, jnp.zeros_like(of(method, hub, clients, fed)))
        return jax.lax.fori_loop(1, rounds + 1, go_on, begun)[2] / (rounds - rounds // 2)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(weights, seeds)


@pytest.mark.parametrize(
    "name",
    [
        name if name.split(", ")[0] in SOME else pytest.param(name, marks=pytest.mark.thorough)
        for name in CASES
    ],
)
def test_a_method_ends_where_it_says_whoever_takes_part(name, double):
    case = CASES[name]
    federation = assemble(*WORLDS[case.world], case.batch_size, "float64")
    weights, seeds = jnp.asarray([EQUAL, SIZE]), jnp.arange(LANES)
    found = np.asarray(play(case.method, federation, weights, seeds, ROUNDS, case.of)).mean(1)
    expected = np.array([case.limit(EQUAL), case.limit(SIZE)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=case.tolerance)


@pytest.mark.parametrize("limit", [averaged, composite, saddle, separate])
def test_weights_pose_problems_that_are_far_apart(limit):
    assert np.abs(limit(EQUAL) - limit(SIZE)).max() > 10 * DRAWN


def test_the_worst_mixture_is_far_from_the_mean():
    assert np.abs(robust(EQUAL) - averaged(EQUAL)).max() > 4 * DRAWN
    assert np.abs(robust(EQUAL) - robust(EQUAL, mu=4.0)).max() > 2 * DRAWN


def test_every_method_of_the_catalogue_is_here():
    """Vertical ones know no weights; `test_vertical_rates.py` has the one in which few answer."""
    tried = {}
    for name, case in CASES.items():
        tried.setdefault(name.split(", ")[0], []).extend(layers(case.method))
    horizontal = {key: e.cls for key, e in CATALOGUE.items() if e.family != "vertical"}
    assert tried.keys() == horizontal.keys()
    for key, cls in horizontal.items():
        ways = {"cohort", "attendance"} & {field.name for field in dataclasses.fields(cls)}
        for way in ways or {"drop"}:
            assert any(getattr(layer, way, None) for layer in tried[key]), (key, way)
