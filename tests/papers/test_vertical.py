"""The vertical family against its transcriptions, and what the paper says of it."""

import itertools

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.algorithms import (
    EGVFL,
    EGVFLAugmented,
    EGVFLCompressed,
    EGVFLCoordinate,
    EGVFLDual,
    EGVFLErrorFeedback,
    EGVFLNonlinear,
    EGVFLPartial,
    EGVFLProximal,
    EGVFLSlacks,
    SharingADMM,
    VerticalAGD,
    VerticalGD,
)
from fedloom.algorithms.vertical import egvfl_coordinate, egvfl_partial
from fedloom.algorithms.vertical.scaling import EXCHANGES
from fedloom.exchange.in_process import InProcess
from fedloom.models.base import Pair
from fedloom.operators.blocks import block
from fedloom.operators.compressors import Identity, RandK, TopK
from fedloom.party import PartyObjective
from fedloom.protocol import Cohort, Replies
from papers import vertical

DATA = vertical.Columns()
PARTIES = fl.data.from_parties(DATA.blocks, DATA.b)
PROBLEM = fl.problems.Vertical(l2=DATA.l2)
LASSO = fl.problems.Vertical(l2=DATA.l2, regulariser=fl.problems.L1(1.5))
NAMES = [f"party {i}" for i in range(DATA.n)]
ROUNDS, STEP = 6, 0.1


def simulate(method, problem=PROBLEM, parties=PARTIES, **options):
    settings = {"rounds": ROUNDS, "precision": "float64", "metrics": ()}
    return fl.simulate(method, problem, parties, **settings | options)


def joined(model):
    return np.concatenate([np.ravel(model[name]) for name in NAMES])


def close(got, expected, tolerance=1e-12):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


LISTINGS = {
    "egvfl": (EGVFL(step=STEP), lambda: vertical.egvfl(DATA, STEP, ROUNDS)[0]),
    "average": (EGVFL(step=STEP, iterate="average"), lambda: vertical.egvfl(DATA, STEP, ROUNDS)[3]),
    "randk": (
        EGVFLCompressed(RandK(50), refresh=0.4, step=STEP),
        lambda: vertical.compressed(DATA, STEP, ROUNDS, 0.4, 50, True, "old")[0],
    ),
    "randk, own seeds, new": (
        EGVFLCompressed(RandK(30, shared=False), refresh=0.4, reference="new", step=STEP),
        lambda: vertical.compressed(DATA, STEP, ROUNDS, 0.4, 30, False, "new")[0],
    ),
    "error feedback": (
        EGVFLErrorFeedback(TopK(30), refresh=0.4, step=STEP),
        lambda: vertical.error_feedback(DATA, STEP, ROUNDS, 0.4, 30)[0],
    ),
    "partial": (EGVFLPartial(2, step=STEP), lambda: vertical.partial(DATA, STEP, ROUNDS, 2)[0]),
    "coordinate": (
        EGVFLCoordinate(50, 40, refresh=0.4, step=STEP),
        lambda: vertical.coordinate(DATA, STEP, ROUNDS, 0.4, 50, 40, True)[0],
    ),
    "coordinate, own seeds": (
        EGVFLCoordinate(30, 60, shared=False, refresh=0.4, step=STEP),
        lambda: vertical.coordinate(DATA, STEP, ROUNDS, 0.4, 30, 60, False)[0],
    ),
    "slacks": (EGVFLSlacks(step=STEP), lambda: vertical.slacks(DATA, STEP, ROUNDS)[0]),
    "proximal": (EGVFLProximal(step=STEP), lambda: vertical.proximal(DATA, STEP, ROUNDS, 0.0)),
    "augmented": (
        EGVFLAugmented(rho=0.3, step=STEP),
        lambda: vertical.augmented(DATA, STEP, 0.3, ROUNDS)[0],
    ),
    "dual": (EGVFLDual(step=STEP), lambda: vertical.dual(DATA, STEP, ROUNDS)),
    "gd": (VerticalGD(step=0.03), lambda: [vertical.descent(DATA, 0.03, ROUNDS)]),
    "agd": (
        VerticalAGD(step=0.03, momentum=0.7),
        lambda: [vertical.descent(DATA, 0.03, ROUNDS, 0.7)],
    ),
    "admm": (SharingADMM(rho=1.3), lambda: vertical.sharing_admm(DATA, 1.3, ROUNDS)[0]),
}
# Those that go on to the solution, in the same compiled program: (listing, iterations).
EXACT = {
    "egvfl": 2500,
    "randk": 4000,
    "error feedback": 6000,
    "partial": 4000,
    "coordinate": 4000,
    "slacks": 6000,
    "proximal": 2500,
    "augmented": 2500,
    "dual": 2500,
    "gd": 2500,
    "agd": 1000,
    "admm": 1500,
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_method_follows_its_listing(name, double):
    method, listing = LISTINGS[name]
    close(joined(simulate(method).model), np.concatenate(listing()))
    if name in EXACT:
        # The ridge solution to 1e-12; the randomised methods too, since their noise dies out.
        far = simulate(method, rounds=EXACT[name], eval_every=EXACT[name])
        close(joined(far.model), DATA.ridge(), 1e-12)


@pytest.mark.parametrize(
    "method", [EGVFLProximal(step=STEP), SharingADMM(rho=1.0)], ids=["proximal", "admm"]
)
def test_the_lasso_solution_is_reached(method, double):
    optimum = fl.reference(LASSO, PARTIES)
    if isinstance(method, EGVFLProximal):
        listed = vertical.proximal(DATA, STEP, ROUNDS, 1.5)
        close(joined(simulate(method, LASSO).model), np.concatenate(listed))
    result = simulate(
        method, LASSO, rounds=3000, eval_every=3000, optimum=optimum, metrics=("gap", "sparsity")
    )
    close(joined(result.model), joined(optimum.model), 1e-12)
    assert result.final["sparsity"] == np.mean(joined(optimum.model) == 0) > 0
    assert abs(result.final["gap"]) < 1e-12


def test_compression_of_nothing_is_the_method_itself_to_the_bit():
    whole = simulate(EGVFL(step=STEP), rounds=40).state.hub
    for reference, same in (("new", True), ("old", False)):
        method = EGVFLCompressed(Identity(), refresh=1.0, reference=reference, step=STEP)
        hub = simulate(method, rounds=40).state.hub
        assert np.array_equal(hub.price, whole.price) == same
        assert np.array_equal(hub.slack, whole.slack) == same


def test_networks_follow_their_listing_and_none_is_the_linear_method(double):
    first = [np.linspace(-1, 1, 2 * w).reshape(w, 2) for w in DATA.widths]

    def create(key, spec):
        (width,) = spec.features
        return jax.numpy.linspace(-1, 1, 2 * width, dtype=spec.dtype).reshape(width, 2)

    network = Pair(create, lambda w, x: jax.numpy.tanh(x @ w))
    problem = fl.problems.Vertical(l2=DATA.l2, network=network, embedding=2)
    got = simulate(EGVFLNonlinear(step=STEP), problem).model
    heads, nets = vertical.nonlinear(DATA, STEP, ROUNDS, first)
    for name, head, net in zip(NAMES, heads, nets, strict=True):
        close(got[name]["head"], head)
        close(got[name]["network"], net)
    with pytest.raises(fl.FedloomError, match="EGVFLNonlinear"):
        simulate(EGVFL(step=STEP), problem)
    linear = simulate(EGVFLNonlinear(step=STEP)).model
    close(joined(linear), joined(simulate(EGVFL(step=STEP)).model))


def test_theory_finds_its_step_without_pooling_and_on_both_engines(double):
    largest = np.linalg.eigvalsh(DATA.whole.T @ DATA.whole)[-1]
    found = simulate(EGVFL(), rounds=1)
    close(found.state.hub.scale.step, 0.5 / np.sqrt(largest), 1e-9)
    own = sum(np.linalg.eigvalsh(a.T @ a)[-1] for a in DATA.blocks)
    bound = simulate(EGVFL(eigenvalue="bound"), rounds=1).state.hub.scale.step
    close(bound, 0.5 / np.sqrt(own), 1e-6)
    tricked = simulate(EGVFL(beta_trick=True))
    step, beta = tricked.state.hub.scale
    close(beta, largest ** (-1 / 6), 1e-9)
    close(step, 0.5 / np.cbrt(largest), 1e-9)
    close(joined(tricked.model), np.concatenate(vertical.egvfl(DATA, step, ROUNDS, beta)[0]), 1e-9)
    network = InProcess(
        EGVFL(beta_trick=True), PROBLEM, PARTIES, batch_size=None, precision="float64"
    )
    opening = DATA.n * 8 * min(EXCHANGES, DATA.s) * DATA.s
    assert network.bytes_up == opening + DATA.n * 8  # and each party's own eigenvalue
    assert network.bytes_down == opening + DATA.n * 16  # and step and beta
    for _ in range(ROUNDS):
        network.step()
    close(network.hub.price, tricked.state.hub.price)
    # Two numbers a row and iteration, each way (G18).
    assert network.bytes_up - opening - DATA.n * 8 == ROUNDS * DATA.n * 2 * DATA.s * 8
    assert tricked.final["bytes_up"] == network.bytes_up


@pytest.mark.parametrize("size", [0.0, 1e-3])
def test_theory_knows_small_columns_and_zeros(size, double):
    parties = fl.data.from_parties([size * a for a in DATA.blocks], DATA.b)
    step, _ = simulate(EGVFL(), parties=parties, rounds=1).state.hub.scale
    close(step, 1 / 2)  # of Theorem 2.2: of its bounds the 1 is left
    if size > 0:
        _, beta = simulate(EGVFL(beta_trick=True), parties=parties, rounds=1).state.hub.scale
        largest = size**2 * np.linalg.eigvalsh(DATA.whole.T @ DATA.whole)[-1]
        close(beta, largest ** (-1 / 6), 1e-9)


def test_nothing_is_asked_before_the_first_round_where_the_step_is_given(double):
    given, found = simulate(EGVFL(step=STEP), rounds=1), simulate(EGVFL(), rounds=1)
    assert given.rows[0]["bytes_up"] == 0 < found.rows[0]["bytes_up"]
    assert found.state.hub.scale.step > 0


SCALED = {"step": STEP, "beta_trick": True}
TRICKED = {
    "randk": (
        EGVFLCompressed(RandK(50), refresh=0.4, eigenvalue="bound", **SCALED),
        lambda data: vertical.compressed(data, STEP, ROUNDS, 0.4, 50, True, "old"),
    ),
    "error feedback": (
        EGVFLErrorFeedback(TopK(30), refresh=0.4, eigenvalue="bound", **SCALED),
        lambda data: vertical.error_feedback(data, STEP, ROUNDS, 0.4, 30),
    ),
    "partial": (
        EGVFLPartial(2, eigenvalue="bound", **SCALED),
        lambda data: vertical.partial(data, STEP, ROUNDS, 2),
    ),
    "coordinate": (
        EGVFLCoordinate(50, 40, refresh=0.4, eigenvalue="bound", **SCALED),
        lambda data: vertical.coordinate(data, STEP, ROUNDS, 0.4, 50, 40, True),
    ),
    "slacks": (EGVFLSlacks(**SCALED), lambda data: vertical.slacks(data, STEP, ROUNDS)),
    "augmented": (
        EGVFLAugmented(rho=0.3, eigenvalue="bound", **SCALED),
        lambda data: vertical.augmented(data, STEP, 0.3, ROUNDS),
    ),
}


@pytest.mark.parametrize("name", TRICKED)
def test_the_beta_trick_follows_the_listing_on_the_scaled_problem(name, double):
    method, listing = TRICKED[name]
    found = simulate(method)
    hub, own = found.state.hub, [np.linalg.eigvalsh(a.T @ a)[-1] for a in DATA.blocks]
    beta = 3 ** (1 / 3) / max(own) ** (1 / 6) if name == "slacks" else sum(own) ** (-1 / 6)
    close(hub.scale.beta, beta, 1e-6)  # a party's own eigenvalue is found by iteration
    shares, slack, *_ = listing(DATA.scaled(float(hub.scale.beta)))
    close(joined(found.model), np.concatenate(shares))
    close(method.model(hub, None), slack / hub.scale.beta)  # the scores, in their own scale


def test_the_beta_of_proximal_steps_makes_the_eigenvalue_one(double):
    found = simulate(EGVFLProximal(eigenvalue="bound", **SCALED), LASSO)
    beta = float(found.state.hub.scale.beta)
    close(beta, sum(np.linalg.eigvalsh(a.T @ a)[-1] for a in DATA.blocks) ** (-1 / 2), 1e-6)
    expected = vertical.proximal(DATA.scaled(beta), STEP, ROUNDS, 1.5)
    close(joined(found.model), np.concatenate(expected))


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_parties_of_sharing_admm_take_accelerated_steps(steps, double):
    found = simulate(SharingADMM(rho=1.3, inner_steps=steps), LASSO)
    expected = vertical.inexact_sharing_admm(DATA, 1.3, ROUNDS, 1.5, steps)
    close(joined(found.model), np.concatenate(expected), 1e-11)


def test_descent_by_theory_takes_its_steps_and_momentum_from_the_eigenvalues(double):
    largest = np.linalg.eigvalsh(DATA.whole.T @ DATA.whole)[-1]
    smoothness = vertical.smoothness(largest, 1.0, DATA.l2)
    plain, fast = simulate(VerticalGD()), simulate(VerticalAGD())
    for found in (plain, fast):
        for party in found.state.clients:
            close(party.scale.step, 1 / smoothness, 1e-9)
    theta = vertical.momentum(smoothness, DATA.l2)
    close(joined(plain.model), vertical.descent(DATA, 1 / smoothness, ROUNDS), 1e-9)
    close(joined(fast.model), vertical.descent(DATA, 1 / smoothness, ROUNDS, theta), 1e-9)


@pytest.mark.parametrize("rho", [0.1, 10.0])
def test_the_dual_of_sharing_admm_is_the_slope_of_the_loss(rho, double):
    hub = simulate(SharingADMM(rho=rho)).state.hub
    close(rho * hub.dual, DATA.n * hub.slack - DATA.b, 1e-13)
    far = simulate(SharingADMM(rho=rho), rounds=20_000, eval_every=20_000)
    close(joined(far.model), DATA.ridge(), 1e-11)


VECTORS = np.random.default_rng(1).normal(size=(3, 5))


def scaled(v, places, factor):
    return vertical.keep(v, list(places), factor)


@pytest.fixture
def chosen(monkeypatch):
    """Lets a test say what is drawn without replacement."""

    def choose(places):
        monkeypatch.setattr(draws, "distinct", lambda *_: np.asarray(places))

    return choose


def test_randk_is_unbiased_with_the_stated_second_moments(chosen, double):
    s, k, q = 5, 2, RandK(40)
    omega = q.omega(VECTORS[0])
    assert omega == s / k
    sets = list(itertools.combinations(range(s), k))

    def sent(v, places):
        chosen(places)
        key = jax.random.key(0)  # not used: the places are given
        return np.asarray(q.restore(q.compress(v, key), v, key))

    images = {(i, p): sent(VECTORS[i], p) for i in range(3) for p in sets}
    for i, v in enumerate(VECTORS):
        close(np.mean([images[i, p] for p in sets], axis=0), v)
        close(np.mean([(images[i, p] ** 2).sum() for p in sets]), omega * v @ v)
    alike = [sum(images[i, p] for i in range(3)) for p in sets]
    total = VECTORS.sum(0)
    close(np.mean([w @ w for w in alike]), omega * total @ total)
    apart = [
        sum(images[i, p] for i, p in enumerate(each)) for each in itertools.product(sets, repeat=3)
    ]
    second = total @ total + (omega - 1) * (VECTORS**2).sum()
    close(np.mean([w @ w for w in apart]), second)


@pytest.mark.parametrize("m", [1, 2])
def test_some_of_the_parties_stand_for_all_without_bias(m, double):
    n, total = 3, VECTORS.sum(0)
    estimates = []
    for ids in itertools.combinations(range(n), m):
        cohort = Cohort(np.array(ids), np.ones(m, bool))
        replies = Replies(jax.numpy.asarray(VECTORS[list(ids)]), cohort)
        estimates.append(np.asarray(egvfl_partial.estimate(replies, n)))
    close(np.mean(estimates, axis=0), total)
    alone = (n / m) * ((n - m) / (n - 1)) * (VECTORS**2).sum()
    together = n * (m - 1) / (m * (n - 1)) * total @ total
    close(np.mean([w @ w for w in estimates]), alone + together)


def test_some_columns_stand_for_all_without_bias(chosen, double):
    a = DATA.blocks[1]
    layout = PROBLEM.share_layout(3, 0, "float64")
    f = PartyObjective(PROBLEM, layout, block(a, "float64"), 0)
    pulls = []
    for columns in itertools.combinations(range(3), 2):
        chosen(columns)
        pulls.append(np.asarray(egvfl_coordinate.some_columns(f, DATA.b, None, 60)))
    exact = a.T @ DATA.b
    close(np.mean(pulls, axis=0), exact)
    close(np.mean([p @ p for p in pulls]), 3 / 2 * exact @ exact)


@pytest.mark.parametrize(
    ("loss", "method"),
    [
        ("logistic", EGVFL(step=0.1)),
        ("softmax", EGVFLProximal(step=0.15)),
        ("softmax", SharingADMM(rho=0.5)),
    ],
)
def test_other_losses_reach_their_solution(loss, method, double):
    classes = 2 if loss == "logistic" else 3
    labels = np.arange(DATA.s) % classes
    parties = fl.data.from_parties(DATA.blocks, labels, test=(DATA.blocks, labels))
    problem = fl.problems.Vertical(loss=loss, l2=DATA.l2)
    optimum = fl.reference(problem, parties)
    result = simulate(
        method, problem, parties, rounds=3000, eval_every=3000, optimum=optimum,
        metrics=("accuracy", "loss", "distance", "residual"),
    )  # fmt: skip
    assert result.final["distance"] < 1e-10
    assert result.final["residual"] < 1e-9
    scores = sum(a @ result.model[name] for name, a in zip(NAMES, DATA.blocks, strict=True))
    predicted = scores > 0 if loss == "logistic" else scores.argmax(-1)
    assert result.final["accuracy"] == np.mean(predicted == labels)
