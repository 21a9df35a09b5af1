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
from scipy.optimize import minimize, minimize_scalar

import fedloom as fl
from fedloom import algorithms as fa
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.wrappers.base import layers
from fedloom.engines import block, keys
from fedloom.engines.mapping import Plan
from fedloom.federation import assemble

PLAN = Plan(None, None)
LANES, ROUNDS = 32, 1000
# Of 32 runs, the models of 500 rounds are averaged. Where draws move the model, the mean of that is
# known to about 0.01, and the two problems are at least 0.5 apart.
DRAWN, EXACT = 0.05, 1e-6
SIZES = np.array([2, 20])
EQUAL, SIZE = np.array([0.5, 0.5]), SIZES / SIZES.sum()


# Quadratics: f_i(w) = |A_i w - y_i|^2 / (2 rows) + (L2 / 2) |w|^2, and g = L1 |w|_1.

L2, L1 = 0.1, 0.1
_TURNED = np.array([[1.2, 0.3], [-0.3, 1.2]])
_WIDE = np.tile(_TURNED, (10, 1))
_APART = 1.2 * np.repeat([1.0, -1.0], 10)  # adds to the loss of the second client, not to its slope
PARTS = [
    (np.sqrt(2) * np.eye(2), np.sqrt(2) * np.array([2.0, -1.0])),
    (_WIDE, _WIDE @ np.array([-1.0, 1.0]) + _APART),
]
HESSIANS = [x.T @ x / len(y) + L2 * np.eye(2) for x, y in PARTS]
PULLS = [x.T @ y / len(y) for x, y in PARTS]


def value(i, w):
    x, y = PARTS[i]
    return 0.5 * np.mean((x @ w - y) ** 2) + 0.5 * L2 * w @ w


def weighted(a, terms):
    return sum(a_i * term for a_i, term in zip(a, terms, strict=True))


def averaged(a):
    """Of sum_i a_i f_i."""
    return np.linalg.solve(weighted(a, HESSIANS), weighted(a, PULLS))


def composite(a, times=1):
    """Of sum_i a_i f_i + times g."""
    w = np.zeros(2)
    for _ in range(2000):
        v = w - 0.2 * (weighted(a, HESSIANS) @ w - weighted(a, PULLS))
        w = np.sign(v) * np.maximum(np.abs(v) - 0.2 * times * L1, 0)
    return w


def fair(a, q):
    """Of sum_i a_i f_i^(q+1)."""
    return minimize(lambda w: weighted(a, [value(i, w) ** (q + 1) for i in (0, 1)]), [0, 0]).x


def enveloped(a, penalty):
    """Of sum_i a_i min_x f_i(x) + (penalty / 2) |x - w|^2."""
    near = [penalty * np.linalg.inv(h + penalty * np.eye(2)) for h in HESSIANS]
    slopes = [np.eye(2) - n for n in near]
    return np.linalg.solve(
        weighted(a, slopes),
        weighted(a, [n @ b / penalty for n, b in zip(near, PULLS, strict=True)]),
    )


def adapted(a, rate):
    """Of sum_i a_i f_i(w - rate f_i'(w))."""
    shrink = [np.eye(2) - rate * h for h in HESSIANS]
    return np.linalg.solve(
        weighted(a, [s @ h @ s for s, h in zip(shrink, HESSIANS, strict=True)]),
        weighted(a, [s @ s @ b for s, b in zip(shrink, PULLS, strict=True)]),
    )


def robust(a, mu=0.0):
    """Of max_lambda sum_i lambda_i f_i - (mu / 2) |lambda - 1/2|^2, whatever the weights."""

    def worst(one):
        mixture = np.array([one, 1 - one])
        w = averaged(mixture)
        loss = weighted(mixture, [value(i, w) for i in (0, 1)])
        return 0.5 * mu * np.sum((mixture - 0.5) ** 2) - loss

    one = minimize_scalar(worst, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    return averaged([one, 1 - one])


# Saddles: f_i(x, y) = (CONVEX / 2) |x|^2 + x'K_i y - (CONCAVE / 2) |y|^2 + b_i'x - c_i'y.

CONVEX, CONCAVE = 1.0, 1.5
COUPLINGS = [np.array([[1.0], [0.5]]), np.array([[-0.6], [1.0]])]
SLOPES = [np.array([2.0, -1.0]), np.array([-1.0, 1.5])]
DUAL_SLOPES = [np.array([1.0]), np.array([-1.0])]


def saddle(a, dual="shared"):
    """With the dual eliminated by hand."""
    if dual == "shared":
        parts = [[weighted(a, each)] for each in (COUPLINGS, SLOPES, DUAL_SLOPES)]
        terms = list(zip([1.0], *parts, strict=True))
    else:
        terms = list(zip(a, COUPLINGS, SLOPES, DUAL_SLOPES, strict=True))
    x = np.zeros(2)
    for _ in range(2000):
        slope = sum(w * (b + k @ (k.T @ x - c) / CONCAVE) for w, k, b, c in terms)
        v = x - 0.1 * (CONVEX * x + slope)
        x = np.sign(v) * np.maximum(np.abs(v) - 0.1 * L1, 0)
    return x


def separate(a):
    return saddle(a, "separate")


# Classes: f_i is the mean cross-entropy of two linear scores, and (OWN_L2 / 2) |weights|^2.

OWN_L2, CLOSE, GUIDE = 0.5, 0.5, 0.5


def _class_rows():
    rng = np.random.default_rng(5)
    for m, way in zip(SIZES, (1.0, -1.0), strict=True):
        y = np.arange(m) % 2
        x = rng.normal(size=(m, 2)) + way * np.outer(2 * y - 1, [1.0, 0.5])
        yield x, y


CLASSES = list(_class_rows())
WITH_ONE = [np.column_stack([np.ones(len(y)), x]) for x, y in CLASSES]
LABELS = [np.eye(2)[y] for _, y in CLASSES]


def chances(i, w):
    """The probabilities of both classes, for each row of client i."""
    scores = np.exp(WITH_ONE[i] @ w)
    return scores / scores.sum(1, keepdims=True)


def towards(i, w, targets):
    """The gradient by w of the cross-entropy with targets, or of KL(targets || w)."""
    return WITH_ONE[i].T @ (chances(i, w) - targets) / len(targets)


def own_slope(i, w):
    return towards(i, w, LABELS[i]) + OWN_L2 * np.array([[0], [1], [1]]) * w


def teacher_slope(i, w, student):
    """The gradient by w of KL(w || student)."""
    p = chances(i, w)
    apart = np.log(p / student)
    return WITH_ONE[i].T @ (p * (apart - (p * apart).sum(1, keepdims=True))) / len(p)


def settle(slopes, rate=0.5, steps=2000):
    """Where own models x and a common one w end; `slopes(x, w)` gives the directions of both."""
    x, w = np.zeros((2, 3, 2)), np.zeros((3, 2))
    for _ in range(steps):
        dx, dw = slopes(x, w)
        x, w = x - rate * np.array(dx), w - rate * dw
    return x, w


def preferred(w):
    return w[:, 1] - w[:, 0]


def alone(a):
    """Every client's own model, whatever the weights."""
    return settle(lambda x, w: ([own_slope(i, x[i]) for i in (0, 1)], 0))[0].ravel()


def near_common(a):
    """The w of sum_i a_i (f_i(x_i) + (CLOSE / 2) |x_i - w|^2)."""

    def slopes(x, w):
        dx = [own_slope(i, x[i]) + CLOSE * (x[i] - w) for i in (0, 1)]
        return dx, CLOSE * (w - weighted(a, x))

    return preferred(settle(slopes)[1])


def distilled(a):
    """The w of sum_i a_i ((1 - GUIDE) f_i(x_i) + GUIDE KD_i(x_i, w))."""

    def slopes(x, w):
        dx = [
            (1 - GUIDE) * own_slope(i, x[i]) + GUIDE * towards(i, x[i], chances(i, w))
            for i in (0, 1)
        ]
        return dx, weighted(a, [teacher_slope(i, w, chances(i, x[i])) for i in (0, 1)])

    return preferred(settle(slopes)[1])


def mutual(a):
    """Where own models and a common one teach each other, both with weight GUIDE."""

    def slopes(x, w):
        dx, dw = zip(
            *[
                [
                    (1 - GUIDE) * own_slope(i, one) + GUIDE * towards(i, one, chances(i, other))
                    for one, other in ((x[i], w), (w, x[i]))
                ]
                for i in (0, 1)
            ],
            strict=True,
        )
        return dx, weighted(a, dw)

    return preferred(settle(slopes)[1])


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
_ROBUST = {"lr": 0.02, "weight_lr": 0.005, "local_steps": 1}
_PERSONAL = {"lr": 0.3, "local_steps": 1, "cohort": 1}
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
    "quantized_training": Case(
        fa.QuantizedTraining(**_PERSONAL, quantise=None), "personal", alone, EXACT, of=own_models
    ),
}  # fmt: skip


@functools.partial(jax.jit, static_argnames=("rounds", "of"))
def play(method, federation, weights, seeds, rounds, of):
    """The mean over the second half of the rounds, for each weighting and seed, in one program."""

    def one(weights, seed):
        fed, root = dataclasses.replace(federation.fed, weights=weights), keys.root(seed)
        world = dataclasses.replace(federation, fed=fed)

        def go_on(round, carried):
            hub, clients, total = carried
            steps = method.round(hub, fed, keys.hub(root, round))
            hub, clients, *_ = block.drive(steps, method, world, clients, root, round, PLAN)
            now = of(method, hub, clients, fed)
            return hub, clients, total + jnp.where(round > rounds // 2, now, 0)

        hub, clients, _ = block.opening(method, world, root, PLAN)
        begun = (hub, clients, jnp.zeros_like(of(method, hub, clients, fed)))
        return jax.lax.fori_loop(1, rounds + 1, go_on, begun)[2] / (rounds - rounds // 2)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(weights, seeds)


@pytest.mark.parametrize("name", CASES)
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
