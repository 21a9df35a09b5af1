"""What the papers say of the minimax family, on problems with known solutions."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import (
    CODASCA,
    FFMDR,
    SAGA,
    SGDA,
    Exact,
    FedNest,
    FedNormSGDA,
    FFMDRConsensus,
    LocalSGDA,
)
from fedloom.algorithms.minimax.point import PrimalDual
from fedloom.algorithms.minimax.resolvent import Resolvent
from fedloom.diagnostics import potential, regime
from fedloom.population import assemble
from fedloom.simulator.trajectory import trajectory
from tiers import thorough

CONVEXITY, CONCAVITY, L1 = 0.5, 1.5, 0.3
PRIMAL, DUAL = 4, 2


def parts(sizes=(8, 5, 12, 7)):
    """Rows that carry matrices K and vectors (b, c), with unlike means at each client."""
    rng = np.random.default_rng(0)
    return [
        (
            rng.normal(size=(m, PRIMAL, DUAL)) + rng.normal(size=(PRIMAL, DUAL)),
            rng.normal(size=(m, PRIMAL + DUAL)) + 2 * rng.normal(size=PRIMAL + DUAL),
        )
        for m in sizes
    ]


PARTS = parts()
CLIENTS = fl.data.from_arrays(PARTS)
MEANS = [(k.mean(0), v.mean(0)[:PRIMAL], v.mean(0)[PRIMAL:]) for k, v in PARTS]
WEIGHTS = {"equal": np.full(4, 1 / 4), "size": CLIENTS.sizes / CLIENTS.sizes.sum()}


def saddle(weights="equal", l1=L1):
    return fl.problems.Bilinear(
        convexity=CONVEXITY, concavity=CONCAVITY, weights=weights, regulariser=fl.problems.L1(l1)
    )


@functools.cache
def solution(dual, weights="equal", l1=L1):
    """The minimiser by NumPy: the dual eliminated by hand, then proximal gradient steps."""
    a = WEIGHTS[weights]
    if dual == "shared":
        k, b, c = (sum(w * m[j] for w, m in zip(a, MEANS, strict=True)) for j in range(3))
        terms = [(1.0, k, b, c)]
    else:
        terms = [(w, *m) for w, m in zip(a, MEANS, strict=True)]
    x = np.zeros(PRIMAL)
    for _ in range(20_000):
        g = CONVEXITY * x + sum(w * (b + k @ (k.T @ x - c) / CONCAVITY) for w, k, b, c in terms)
        v = x - 0.02 * g
        x = np.sign(v) * np.maximum(np.abs(v) - 0.02 * l1, 0)
    return x


def limit(method, problem=None, *, rounds=400, **options):
    options = {"batch_size": None, "precision": "float64", "eval_every": rounds} | options
    return fl.simulate(method, problem or saddle(), CLIENTS, rounds=rounds, **options).model


def near(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a, b, atol=tolerance, rtol=0)


@pytest.mark.parametrize("weights", ["equal", "size"])
def test_ffmdr_solves_the_separate_problem(weights):
    method = FFMDR(beta=0.7, solver=Exact())
    model = limit(method, saddle(weights))
    near(model, solution("separate", weights))
    assert np.linalg.norm(model - solution("shared", weights)) > 0.1


def test_ffmdr_as_printed_divides_the_regulariser_by_the_number_of_clients():
    model = limit(FFMDR(beta=0.7, solver=Exact(), server_prox="beta/n"))
    near(model, solution("separate", l1=L1 / 4))
    assert np.linalg.norm(model - solution("separate")) > 0.01


@pytest.mark.parametrize(
    "who", [{"cohort": 2}, {"attendance": 0.5}, {"attendance": (1.0, 0.3, 0.5, 0.8)}], ids=str
)
def test_ffmdr_keeps_its_fixed_point_when_clients_are_absent(who):
    near(limit(FFMDR(beta=0.7, solver=Exact(), **who), rounds=1500), solution("separate"))


@pytest.mark.parametrize("weights", ["equal", "size"])
def test_the_consensus_variant_solves_the_shared_problem(weights):
    method = FFMDRConsensus(beta=0.7, dual_beta=0.4, solver=Exact())
    near(limit(method, saddle(weights)), solution("shared", weights))


@pytest.mark.parametrize(("dual", "weights"), [("shared", "size"), ("separate", "equal")])
def test_the_reference_is_of_exactly_the_posed_problem(dual, weights):
    found = fl.reference(saddle(weights), CLIENTS, dual=dual)
    near(found.vector, solution(dual, weights), 1e-12)


def test_weights_and_duals_pose_four_different_problems():
    found = [solution(d, w) for d in ("shared", "separate") for w in ("equal", "size")]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(found) for b in found[:i]]
    assert min(gaps) > 0.02


def test_control_variates_find_the_saddle_where_local_sgda_drifts():
    smooth, target = saddle(l1=0.0), solution("shared", l1=0.0)
    steps = {"lr": 0.03, "dual_lr": 0.03, "local_steps": 5}
    near(limit(CODASCA(**steps), smooth), target, 1e-9)
    near(limit(FedNest(lr=0.2, dual_lr=0.3, local_steps=5), smooth, rounds=600), target, 1e-9)
    drifted = limit(LocalSGDA(**steps), smooth)
    assert np.linalg.norm(drifted - target) > 0.01


@thorough
def test_codascas_limit_under_l1_is_off_by_the_length_of_a_round_unless_by_subgradients():
    def off(lr, regularise, **stages):
        steps = {"lr": lr, "dual_lr": lr, "local_steps": 8, "regularise": regularise}
        model = limit(CODASCA(**steps, **stages), rounds=3000)
        return np.abs(model - solution("shared")).max()

    long, short = off(0.06, "prox"), off(0.02, "prox")
    assert long > 0.01 and 2.5 < long / short < 4
    assert off(0.06, "prox", stage_rounds=500) < long / 50
    assert off(0.06, "subgradient") < 1e-10  # the solution has no zero, at which steps would swing


def test_fed_norm_sgda_with_equal_steps_is_local_sgda():
    steps = {"lr": 0.03, "dual_lr": 0.05, "local_steps": 4}
    options = {"rounds": 5, "batch_size": 3}
    near(limit(FedNormSGDA(**steps), **options), limit(LocalSGDA(**steps), **options), 1e-13)


# The local problem: its solvers and their termination test.


@functools.cache
def local(batch_size=None):
    with jax.enable_x64(True):
        return assemble(saddle(), CLIENTS, batch_size, "float64").groups[0]


def resolvent(group, client, beta=0.4, both=False):
    centre = PrimalDual(jnp.arange(PRIMAL) / 2.0, jnp.ones(DUAL))
    return Resolvent(group.objective(client), centre, PrimalDual(1 / beta, both / beta))


def at_zero():
    return PrimalDual(jnp.zeros(PRIMAL), jnp.zeros(DUAL))


def exact(r):
    return Exact().solve(r, at_zero(), jax.random.key(0)).point


def test_the_termination_test_implies_the_accuracy(double):
    rng = np.random.default_rng(3)
    accuracies = jnp.asarray([0.95, 0.25, 0.05, 1e-3])

    @jax.jit
    def trial(group, client, beta, direction, far, offset):
        r = resolvent(group, client, beta)
        best = exact(r)
        v = jax.tree.map(lambda b, d: b + far * d, best, direction)
        start = jax.tree.map(jnp.add, best, offset)
        way = sum(((a - b) ** 2).sum() for a, b in zip(v, start, strict=True))
        error = sum(((a - b) ** 2).sum() for a, b in zip(v, best, strict=True))
        return jax.vmap(lambda acc: r.solved(v, start, acc))(accuracies), error, way

    passed = 0
    for _ in range(400):
        blocks = [PrimalDual(rng.normal(size=PRIMAL), rng.normal(size=DUAL)) for _ in range(2)]
        far, beta = 10 ** rng.uniform(-4, 1), 10 ** rng.uniform(-1, 1)
        said, error, way = trial(local(), rng.integers(4), beta, blocks[0], far, blocks[1])
        assert np.all(error <= np.asarray(accuracies)[np.asarray(said)] * way * (1 + 1e-9))
        passed += int(said.sum())
    assert 200 < passed < 1400  # the test says both yes and no


def test_a_solver_that_starts_at_the_saddle_ends_at_once(double):
    def spent(group, start_at_saddle, accuracy):
        r = resolvent(group, 0)
        start = exact(r) if start_at_saddle else at_zero()
        return SGDA(lr=0.05, epochs=7, accuracy=accuracy).solve(r, start, jax.random.key(0))

    run = jax.jit(spent, static_argnums=(1, 2))
    assert run(local(4), True, 0.5).iterations == 0
    # Eight rows in batches of four are two steps an epoch; no accuracy of zero is ever reached.
    assert run(local(4), False, 1e-30).iterations == 7 * 2


@pytest.mark.parametrize("both", [False, True])
def test_gradient_steps_reach_the_accuracy_asked_for(both, double):
    def solve(group):
        r = resolvent(group, 1, both=both)
        found = SGDA(lr=0.05, epochs=500, accuracy=0.01).solve(r, at_zero(), jax.random.key(0))
        return found, exact(r)

    (point, iterations), best = jax.jit(solve)(local())
    error = sum(((a - b) ** 2).sum() for a, b in zip(point, best, strict=True))
    way = sum((a**2).sum() for a in point)
    assert error <= 0.01 * way and 0 < iterations < 500


@pytest.mark.parametrize("batch_size", [pytest.param(1, marks=thorough), 5])
def test_saga_converges_linearly_on_batches(batch_size, double):
    @jax.jit
    def go_on(group, start, key):
        r = resolvent(group, 2)
        found = SAGA(epochs=10).solve(r, start, key).point
        return found, sum(((a - b) ** 2).sum() for a, b in zip(found, exact(r), strict=True)) ** 0.5

    point, errors = at_zero(), []
    for stage in range(6):
        point, error = go_on(local(batch_size), point, jax.random.key(stage))
        errors.append(float(error))
    # Ten passes gain a constant factor each time; a method with a noise floor would stay there.
    assert all(after < before / 3 for before, after in itertools.pairwise(errors)), errors
    assert errors[-1] < 1e-4 * errors[0]


# Diagnostics.


def smoothness():
    """L = L_f (1 + L_f / mu) of the paper, for the unlikeliest client."""
    blocks = [
        np.block([[CONVEXITY * np.eye(PRIMAL), k], [k.T, -CONCAVITY * np.eye(DUAL)]])
        for k, *_ in MEANS
    ]
    largest = max(np.linalg.norm(block, 2) for block in blocks)
    return largest * (1 + largest / CONCAVITY)


@functools.cache
def path(beta):
    return trajectory(FFMDR(beta=beta, solver=Exact()), saddle("size"), CLIENTS, rounds=400)


@thorough
def test_the_potential_decreases_inside_the_theorys_bound_and_not_far_outside():
    bound = (np.sqrt(85) - 9) / 4 / smoothness()
    inside = potential(path(0.98 * bound), beta=0.98 * bound, smoothness=smoothness())
    assert np.all(np.diff(inside) < 0)
    outside = potential(path(3.0), beta=3.0, smoothness=smoothness())
    assert np.any(np.diff(outside) > 0.1)


def test_the_regime_of_a_run_and_of_sequences_with_known_laws():
    found = regime(path(3.0).models)
    assert found.kind == "linear" and 0.5 < found.rate < 0.999
    t = np.arange(1, 300)[:, None]
    sub = regime(t**-0.7 * np.array([1.0, 2.0]))
    assert sub.kind == "sublinear" and abs(sub.exponent - 0.7) < 0.02
    linear = regime(0.9**t)
    assert linear.kind == "linear" and abs(linear.rate - 0.9) < 1e-4
    assert regime(np.maximum(20 - t, 0)).kind == "finite"
    with pytest.raises(fl.FedloomError, match="at least 6 rounds"):
        regime(0.5 ** t[:5])


def test_the_iterations_of_each_client_are_shown():
    method = FFMDR(beta=0.7, solver=SGDA(lr=0.05, epochs=50, accuracy=0.1), cohort=2)
    info = trajectory(method, saddle(), CLIENTS, rounds=3).info
    assert info.iterations.shape == (3, 4)
    assert np.all((info.iterations > 0).sum(1) == 2) and np.all(info.iterations <= 50)


# The problems.


def test_auc_saddle_value_is_that_of_all_pairs(double):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(30, 3)), (rng.random(30) < 0.3).astype(int)
    clients = fl.data.from_arrays([(x, y)])
    f = assemble(fl.problems.AUC(), clients, None, "float64").groups[0].objective(0)
    w, p = rng.normal(size=3), y.mean()
    h = x @ w
    a, b = h[y == 1].mean(), h[y == 0].mean()
    pairs = np.mean((1 - (h[y == 1][:, None] - h[y == 0][None])) ** 2)
    u, alpha = jnp.array([a, b, *w]), jnp.array([b - a])
    near(f.full_value(u, alpha), p * (1 - p) * pairs, 1e-13)
    gx, gy = f.full_grads(u, alpha)
    near(gx[:2], 0, 1e-13)
    near(gy, 0, 1e-13)


def test_neither_regulariser_nor_penalty_touches_the_centres():
    problem = fl.problems.AUC(positive_rate=0.5, l2=1.0, regulariser=fl.problems.L1(1.0))
    model = {"w": jnp.ones(3), "bias": jnp.array([2.0, -2.0])}
    moved = problem.regulariser.prox(model, 0.5)
    np.testing.assert_array_equal(moved["bias"], model["bias"])
    np.testing.assert_allclose(moved["w"], 0.5)
    assert problem.penalty(model) == 1.5


def ranked(seed=4, classes=(1, 0, 1, 0, 0)):
    """Clients with rows of one class each."""
    rng = np.random.default_rng(seed)
    return fl.data.from_arrays(
        [
            (rng.normal(0.7 * c, 1, (12 + 3 * i, 3)), np.full(12 + 3 * i, c))
            for i, c in enumerate(classes)
        ]
    )


def test_the_positive_rate_comes_from_counts():
    clients = ranked()
    agreed = fl.problems.AUC().agree(clients)
    assert agreed.positive_rate == clients.train.y.mean()
    assert fl.problems.AUC(positive_rate=0.2).agree(clients).positive_rate == 0.2
    with pytest.raises(fl.FedloomError, match="rows of both classes"):
        fl.problems.AUC().agree(ranked(classes=(1, 1)))


def test_the_strong_concavity_of_auc_is_that_of_its_dual():
    """The dual enters as -p (1 - p) y^2, whose second derivative is -2 p (1 - p)."""
    assert fl.problems.AUC(positive_rate=0.3).strong_concavity == pytest.approx(2 * 0.3 * 0.7)


def test_auc_with_a_network_and_one_class_a_client():
    problem = fl.problems.AUC(model=fl.models.MLP(hidden=(4,)))
    result = fl.simulate(
        CODASCA(lr=0.1, dual_lr=0.1, local_steps=5), problem, ranked(), rounds=60, batch_size=6,
        metrics=("auc", "accuracy"), eval_every=60,
    )  # fmt: skip
    assert result.final["auc"] > 0.6


@thorough
def test_robust_classification_with_separate_perturbations():
    rng = np.random.default_rng(5)
    rows = [(rng.normal(i / 3, 1, (10, 2)), rng.integers(0, 2, 10)) for i in range(3)]
    clients = fl.data.from_arrays(rows)
    problem = fl.problems.Adversarial(
        penalty_strength=2.0, l2=0.05, regulariser=fl.problems.L1(0.01)
    )
    optimum = fl.reference(problem, clients, dual="separate")
    final = fl.simulate(
        FFMDR(beta=2.0, solver=Exact(newton_steps=6)), problem, clients, rounds=200,
        precision="float64", optimum=optimum, metrics=("distance", "gap"), eval_every=200,
    ).final  # fmt: skip
    assert final["distance"] < 1e-8 and abs(final["gap"]) < 1e-12


def test_a_loss_of_your_own_works_the_same_way():
    def loss(x, y, rows):
        b, c = rows.y[:, :PRIMAL], rows.y[:, PRIMAL:]
        common = 0.5 * CONVEXITY * (x["x"] @ x["x"]) - 0.5 * CONCAVITY * (y["y"] @ y["y"])
        return common + rows.x @ y["y"] @ x["x"] + b @ x["x"] - c @ y["y"]

    own = fl.problems.Saddle(
        loss=loss,
        primal=lambda key, spec: {"x": jnp.zeros(spec.features[0], spec.dtype)},
        dual=lambda key, spec: {"y": jnp.zeros(spec.features[1], spec.dtype)},
        concavity=CONCAVITY,
        regulariser=fl.problems.L1(L1),
    )
    method = FFMDR(beta=0.7, solver=SGDA(lr=0.02, epochs=3, accuracy=0.5))
    options = {"rounds": 5, "batch_size": 3}
    near(limit(method, own, **options)["x"], limit(method, **options), 1e-13)
    with pytest.raises(fl.FedloomError, match="score must be a function"):
        own.predict({}, np.zeros((1, 2)))


def test_misuse_is_named():
    solver = SGDA(lr=0.1)
    with pytest.raises(fl.FedloomError, match="cohort or attendance must be none"):
        FFMDR(beta=1.0, solver=solver, cohort=2, attendance=0.5)
    with pytest.raises(fl.FedloomError, match="attendance must be a number above 0"):
        FFMDR(beta=1.0, solver=solver, attendance=(0.5, 1.5))
    with pytest.raises(fl.FedloomError, match="one for each of the 4 clients; got 2"):
        limit(FFMDR(beta=1.0, solver=solver, attendance=(0.5, 0.5)))
    with pytest.raises(fl.FedloomError, match="is for smooth problems"):
        limit(fl.algorithms.FedAvg(lr=0.1))
    constrained = dataclasses.replace(saddle(), regulariser=fl.problems.Ball(1.0))
    with pytest.raises(fl.FedloomError, match="Ball is a constraint"):
        limit(LocalSGDA(lr=0.1, dual_lr=0.1, regularise="subgradient"), constrained)
    with pytest.raises(fl.FedloomError, match="rows that are matrices"):
        fl.simulate(LocalSGDA(lr=0.1, dual_lr=0.1), saddle(), ranked(), rounds=1)
