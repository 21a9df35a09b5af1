"""The robust family against its transcriptions, and what the papers say of it."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import fedloom as fl
from fedloom.algorithms import AFL, DRFA, DRFAGA, DRFAProx, FedAvg, QFedAvg, QFedSGD
from fedloom.algorithms.robust import drfa as drfa_module
from fedloom.engines import block, keys
from fedloom.engines.mapping import Plan
from fedloom.errors import ParameterError
from fedloom.federation import assemble
from fedloom.protocol import Cohort, relay
from papers import robust
from papers.reference import Draws, LogisticClients

CLIENTS = LogisticClients()
FEDERATION = fl.data.from_arrays(CLIENTS.parts())
RADIUS = 0.4
PROBLEM = fl.problems.Logistic(l2=0.1, regulariser=fl.problems.Ball(RADIUS))
FREE = fl.problems.Logistic(l2=0.1)
PLAN = Plan(None, None)


def simulate(algorithm, *, problem=PROBLEM, clients=FEDERATION, **options):
    settings = {"rounds": 5, "batch_size": 4, "precision": "float64"}
    return fl.simulate(algorithm, problem, clients, **settings | options)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def follows(result, expected):
    model, weights, average = expected
    close(result.model, model)
    close(result.state.hub.weights, weights)
    close(result.state.hub.averages.model, average)


def test_afl_follows_its_listing(double):
    got = simulate(AFL(lr=0.5, weight_lr=0.3))
    follows(
        got,
        robust.afl(CLIENTS, Draws(CLIENTS, 4), lr=0.5, weight_lr=0.3, rounds=5, radius=RADIUS),
    )
    assert np.linalg.norm(got.model) == pytest.approx(RADIUS)


@pytest.mark.parametrize(
    "options",
    [
        {"cohort": 3},
        {"cohort": None},
        {"cohort": 3, "sampling": "uniform", "weight_lr_decay": 0.9, "weight_floor": 0.2},
    ],
    ids=["by lambda", "everyone", "as the authors' program"],
)
def test_drfa_follows_its_listing(options, double):
    got = simulate(DRFA(lr=0.3, weight_lr=0.2, local_steps=4, **options))
    names = {"cohort": "cohort", "sampling": "sampling", "weight_lr_decay": "decay"}
    floor = options.get("weight_floor", 0) / CLIENTS.n
    expected = robust.drfa(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, weight_lr=0.2, steps=4, rounds=5, radius=RADIUS,
        floor=floor, **{names[k]: v for k, v in options.items() if k in names},
    )  # fmt: skip
    follows(got, expected)
    assert got.state.hub.weights.min() >= floor - 1e-15


@pytest.mark.parametrize("prior", ["quadratic", "kl"])
def test_drfa_prox_follows_its_listing(prior, double):
    mu, equal = 0.8, np.full(CLIENTS.n, 1 / CLIENTS.n)
    maps = {
        "quadratic": lambda a, c: robust.simplex((a + c * equal) / (1 + c)),
        "kl": lambda a, c: robust.kl_map(a, c, equal),
    }
    method = DRFAProx(lr=0.3, weight_lr=0.2, mu=mu, prior=prior, local_steps=4, cohort=3)
    expected = robust.drfa(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, weight_lr=0.2, steps=4, rounds=5, radius=RADIUS,
        cohort=3, step_of_lambda=lambda a, rate: maps[prior](a, rate * mu),
    )  # fmt: skip
    follows(simulate(method), expected)


def test_drfa_ga_follows_its_listing(double):
    method = DRFAGA(lr=0.3, weight_lr=0.5, mu=0.3, local_steps=4, cohort=3)
    expected = robust.drfa_ga(
        CLIENTS, Draws(CLIENTS, 4), lr=0.3, weight_lr=0.5, mu=0.3, steps=4, rounds=5,
        radius=RADIUS, cohort=3,
    )  # fmt: skip
    follows(simulate(method), expected)


@pytest.mark.parametrize("q", [0.0, 0.5, 3.0])
def test_q_fedavg_follows_its_listing(q, double):
    got = simulate(QFedAvg(lr=0.3, q=q, local_steps=4, cohort=3), problem=FREE)
    expected = robust.q_fedavg(CLIENTS, Draws(CLIENTS, 4), lr=0.3, q=q, steps=4, rounds=5, cohort=3)
    close(got.model, expected)


def test_q_fedsgd_follows_its_listing(double):
    got = simulate(QFedSGD(lr=0.5, q=2.0, cohort=3), problem=FREE)
    close(got.model, robust.q_fedsgd(CLIENTS, Draws(CLIENTS, 4), lr=0.5, q=2.0, rounds=5, cohort=3))


@pytest.mark.parametrize("batch_size", [4, None])
@pytest.mark.parametrize("cohort", [3, None])
def test_q_fedavg_without_q_is_fedavg(batch_size, cohort):
    """Exactly: the same bits, round for round."""
    options = {"problem": FREE, "batch_size": batch_size, "rounds": 20}
    fair = simulate(QFedAvg(lr=0.3, q=0.0, cohort=cohort), **options)
    plain = simulate(FedAvg(lr=0.3, cohort=cohort), **options)
    np.testing.assert_array_equal(fair.model, plain.model)


def test_drawn_by_weight_q_fedavg_adds_alike():
    """512 draws by size: the step is that of the weighted sums, but for the noise of sampling."""
    problem = fl.problems.Logistic(l2=0.1, weights="size")
    options = {"problem": problem, "rounds": 1, "batch_size": None}
    drawn = QFedAvg(lr=0.3, q=1.0, cohort=64, sampling="by_weight")
    sampled = np.mean([simulate(drawn, seed=s, **options).model for s in range(8)], axis=0)
    exact = simulate(QFedAvg(lr=0.3, q=1.0), **options).model
    np.testing.assert_allclose(sampled, exact, atol=0.05)


def enumerated(algorithm, hub, federation, *, stop=None, trained=None, probed=None):
    """One round of the method itself, with the draws that are named put in the place of its own."""

    def outgoing(request):
        message, to = request.message, request.to
        if request.method == "train" and stop is not None:
            message = message._replace(stop=jnp.int32(stop))
        chosen = {"train": trained, "probe": probed}[request.method]
        if chosen is not None:
            ids = np.array(chosen, np.int32)
            to = Cohort(ids, np.ones(len(ids), bool), repeats=to.repeats)
        return dataclasses.replace(request, message=message, to=to)

    root = keys.root(0)
    steps = relay(algorithm.round(hub, federation.fed, keys.hub(root, 1)), outgoing=outgoing)
    clients = ((),)
    return block.drive(steps, algorithm, federation, clients, root, 1, PLAN)[0]


N, M, STEPS = 4, 2, 3
TINY = DRFA(lr=0.3, weight_lr=0.1, local_steps=STEPS, cohort=M)


@pytest.fixture
def tiny(double):
    """A hub in the middle of a run, and full gradients, so that only t', D and U are random."""
    federation = assemble(FREE, FEDERATION, None, "float64")
    hub = TINY.init_hub(federation.fed, keys.root(0))
    return federation, hub._replace(weights=jnp.array([0.55, 0.3, 0.1, 0.05]))


def test_the_mean_step_of_lambda_is_the_sum_of_losses_along_the_path(tiny, monkeypatch):
    """Lemma 2, over every t' and every U; without n / m it would be false by that factor."""
    federation, hub = tiny
    monkeypatch.setattr(drfa_module, "project_floored_simplex", lambda v, floor: v)
    trained = (0, 2)
    steps = [
        enumerated(TINY, hub, federation, stop=stop, trained=trained, probed=probed).weights
        - hub.weights
        for stop in range(1, STEPS + 1)
        for probed in itertools.combinations(range(N), M)
    ]
    assert len(steps) == 18
    path = np.zeros((len(trained), CLIENTS.d))
    losses = np.zeros(N)
    for _ in range(STEPS):
        path = np.array([w - 0.3 * CLIENTS.grad(i, w) for i, w in zip(trained, path, strict=True)])
        losses += [CLIENTS.value(i, path.mean(0)) for i in range(N)]
    close(np.mean(steps, axis=0), TINY.weight_lr * losses)


def test_drawing_by_lambda_with_replacement_is_unbiased_and_without_is_not(tiny):
    """Over every D, with its probability; what runs draws with replacement."""
    federation, hub = tiny
    lam = np.asarray(hub.weights)
    locally = [
        np.asarray(enumerated(TINY, hub, federation, trained=(i, i)).model) for i in range(N)
    ]
    target = lam @ np.array(locally)
    models = {
        chosen: np.asarray(enumerated(TINY, hub, federation, trained=chosen).model)
        for chosen in itertools.combinations_with_replacement(range(N), M)
    }

    def mean(probability):
        pairs = itertools.product(range(N), repeat=M)
        return sum(probability(i, j) * models[tuple(sorted((i, j)))] for i, j in pairs)

    close(mean(lambda i, j: lam[i] * lam[j]), target)
    without = mean(lambda i, j: 0.0 if i == j else lam[i] * lam[j] / (1 - lam[i]))
    assert np.linalg.norm(without - target) > 0.1 * np.linalg.norm(target)

    def drawn(key):
        request = next(TINY.round(hub, federation.fed, key))
        assert request.to.repeats
        return request.to.ids

    draws = np.asarray(jax.vmap(drawn)(jax.random.split(keys.root(1), 4000)))
    repeated = np.mean(draws[:, 0] == draws[:, 1])
    assert repeated == pytest.approx(lam @ lam, abs=0.03)
    np.testing.assert_allclose(np.bincount(draws.ravel(), minlength=N) / draws.size, lam, atol=0.03)


def test_t_prime_is_one_draw_for_all_from_one_to_the_last_step(tiny):
    federation, hub = tiny

    def stop(key):
        return next(TINY.round(hub, federation.fed, key)).message.stop

    stops = np.asarray(jax.vmap(stop)(jax.random.split(keys.root(2), 3000)))
    assert stops.shape == (3000,)  # a number for the round, not one for each client
    np.testing.assert_allclose(np.bincount(stops, minlength=STEPS + 1)[1:] / 3000, 1 / 3, atol=0.04)


def test_the_authors_sampling_is_unbiased_too(tiny):
    federation, hub = tiny
    method = dataclasses.replace(TINY, sampling="uniform")
    models = [
        enumerated(method, hub, federation, trained=chosen).model
        for chosen in itertools.combinations(range(N), M)
    ]
    everyone = dataclasses.replace(TINY, cohort=None)
    close(np.mean(models, axis=0), enumerated(everyone, hub, federation).model)


def test_drfa_with_one_step_and_everyone_is_afl_but_for_where_losses_are_taken(double):
    """AFL takes them before the step, DRFA at the snapshot, which is after it."""
    one = simulate(AFL(lr=0.3, weight_lr=0.2), rounds=1, batch_size=None)
    other = simulate(DRFA(lr=0.3, weight_lr=0.2, local_steps=1), rounds=1, batch_size=None)
    close(one.model, other.model)
    losses = [CLIENTS.value(i, np.asarray(one.model)) for i in range(CLIENTS.n)]
    close(other.state.hub.weights, robust.simplex(0.25 + 0.2 * np.array(losses)))


def test_a_vanishing_mu_makes_drfa_prox_drfa(double):
    plain = simulate(DRFA(lr=0.3, weight_lr=0.2, cohort=3), rounds=20)
    for prior in ("quadratic", "kl"):
        method = DRFAProx(lr=0.3, weight_lr=0.2, mu=1e-12, prior=prior, cohort=3)
        close(simulate(method, rounds=20).model, plain.model, 1e-8)


# A least-squares problem of four clients, two numbers to fit: its minimax solution is found by a
# program with one constraint a client.
TOY = [(np.eye(2) + 0.2 * i, np.array([1.0 - i, 0.5 * i])) for i in range(4)]
TOY_CLIENTS = fl.data.from_arrays(TOY)


def toy_loss(i, w):
    x, y = TOY[i]
    return np.mean((x @ w - y) ** 2) / 2


def minimax(box=None):
    """min t  with  f_i(w) <= t  for every client."""
    limits = [{"type": "ineq", "fun": lambda z, i=i: z[2] - toy_loss(i, z[:2])} for i in range(4)]
    bounds = [box or (None, None)] * 2 + [(None, None)]
    found = minimize(
        lambda z: z[2], np.array([0.0, 0.0, 9.0]), constraints=limits, bounds=bounds,
        method="SLSQP", options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    assert found.success
    return found.x[2]


METHODS = {
    "afl": AFL(lr=0.05, weight_lr=0.05),
    "drfa": DRFA(lr=0.01, weight_lr=0.01, local_steps=5),
    "drfa, the authors' sampling": DRFA(lr=0.01, weight_lr=0.01, local_steps=5, sampling="uniform"),
    "drfa_ga": DRFAGA(lr=0.01, weight_lr=0.05, local_steps=5),
    "drfa_prox": DRFAProx(lr=0.01, weight_lr=0.01, mu=1e-3, local_steps=5),
}


@pytest.mark.parametrize("box", [None, (-0.2, 0.1)], ids=["free", "in a box"])
@pytest.mark.parametrize("name", METHODS)
def test_the_worst_loss_comes_within_a_per_cent_of_the_minimax_value(name, box):
    best = minimax(box)
    g = fl.problems.Zero() if box is None else fl.problems.Box(*box)
    result = simulate(
        METHODS[name], problem=fl.problems.LeastSquares(regulariser=g), clients=TOY_CLIENTS,
        rounds=4000, eval_every=4000, batch_size=None, metrics=("loss",),
    )  # fmt: skip
    assert best * (1 - 1e-9) <= result.final["loss_worst"] < 1.01 * best
    assert best * (1 - 1e-9) <= result.final["average_loss_worst"] < 1.03 * best
    averaged = simulate(
        FedAvg(lr=0.01, local_steps=5), problem=fl.problems.LeastSquares(), clients=TOY_CLIENTS,
        rounds=4000, eval_every=4000, batch_size=None, metrics=("loss",),
    )  # fmt: skip
    assert averaged.final["loss_worst"] > 1.1 * best


@pytest.mark.parametrize("prior", ["quadratic", "kl"])
def test_drfa_prox_solves_the_regularised_problem(prior):
    """KL: the maximum over lambda is mu log sum_i exp(f_i / mu) / n; quadratic: a projection."""
    mu = 0.3

    def worst_mixture(w):
        f = np.array([toy_loss(i, w) for i in range(4)])
        if prior == "kl":
            return mu * np.log(np.mean(np.exp(f / mu)))
        lam = robust.simplex(0.25 + f / mu)
        return lam @ f - mu / 2 * np.sum((lam - 0.25) ** 2)

    expected = minimize(worst_mixture, np.zeros(2), method="BFGS", options={"gtol": 1e-10}).x
    method = DRFAProx(lr=0.002, weight_lr=0.01, mu=mu, prior=prior, local_steps=2)
    result = simulate(
        method, problem=fl.problems.LeastSquares(), clients=TOY_CLIENTS, rounds=6000,
        eval_every=6000, batch_size=None, metrics=("loss",),
    )  # fmt: skip
    # Local steps of unlike clients, and t', leave an error of the order of lr.
    np.testing.assert_allclose(result.model, expected, atol=5e-3)


def test_the_larger_q_the_more_equal_the_losses():
    spreads = [
        simulate(
            QFedSGD(lr=0.3, q=q), problem=fl.problems.LeastSquares(), clients=TOY_CLIENTS,
            rounds=3000, eval_every=3000, batch_size=None,
        ).final["loss_worst"]
        for q in (0.0, 1.0, 5.0, 20.0)
    ]  # fmt: skip
    assert sorted(spreads, reverse=True) == spreads
    assert spreads[-1] < 1.1 * minimax() < spreads[0]


def test_last_and_average_are_both_reported():
    result = simulate(
        DRFA(lr=0.3, weight_lr=0.2, cohort=3), rounds=20, metrics=("accuracy", "loss")
    )
    for name in ("accuracy", "accuracy_worst", "loss_std", "loss_worst10", "loss_best10"):
        assert name in result.final and f"average_{name}" in result.final
    assert result.final["loss"] != result.final["average_loss"]
    assert set(result.client_metrics) >= {"loss", "average_loss"}
    weights = [info.weights for info in result.info[1:]]
    assert len(weights) == 2 and np.allclose(np.sum(weights, axis=1), 1)


def test_a_regulariser_that_is_no_constraint_is_refused():
    problem = fl.problems.Logistic(regulariser=fl.problems.L1(0.1))
    with pytest.raises(ParameterError, match=r"DRFA takes constraints .*got L1.*remove it"):
        simulate(DRFA(lr=0.1, weight_lr=0.1), problem=problem)
    parts = fl.problems.Sum((fl.problems.Box(-1, 1), fl.problems.L1(0.1)))
    with pytest.raises(ParameterError, match="takes constraints"):
        simulate(AFL(lr=0.1, weight_lr=0.1), problem=fl.problems.Logistic(regulariser=parts))
    with pytest.raises(ParameterError, match="QFedAvg takes no regulariser"):
        simulate(QFedAvg(lr=0.1, q=1.0))
