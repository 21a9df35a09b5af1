"""The robust family against its transcriptions, and what the papers say of it."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.algorithms import AFL, DRFA, DRFAGA, DRFAProx, FedAvg, QFedAvg, QFedSGD
from fedloom.algorithms.robust import drfa as drfa_module
from fedloom.errors import ParameterError
from fedloom.population import assemble
from fedloom.protocol import Cohort, relay
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from papers import robust
from papers.reference import Draws, LogisticClients
from tiers import thorough

CLIENTS = LogisticClients()
FEDERATION = fl.data.from_arrays(CLIENTS.parts())
RADIUS = 0.15
PROBLEM = fl.problems.Logistic(l2=0.1, regulariser=fl.problems.Ball(RADIUS))
FREE = fl.problems.Logistic(l2=0.1)
PLAN = Plan(None, None)


def simulate(algorithm, *, problem=PROBLEM, clients=FEDERATION, **options):
    settings = {"rounds": 5, "batch_size": 4, "precision": "float64", "metrics": ()}
    return fl.simulate(algorithm, problem, clients, **settings | options)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def follows(result, expected):
    model, weights, average = expected
    close(result.model, model)
    close(result.state.hub.weights, weights)
    close(result.state.hub.averages.model, average)


def test_afl_follows_its_listing(double):
    method = AFL(lr=0.5, weight_lr=0.3)
    got = simulate(method)
    follows(
        got,
        robust.afl(CLIENTS, Draws(CLIENTS, 4), lr=0.5, weight_lr=0.3, rounds=5, radius=RADIUS),
    )
    assert not np.allclose(got.model, simulate(method, problem=FREE).model)  # the ball matters


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


@pytest.mark.parametrize("batch_size", [4, pytest.param(None, marks=thorough)])
@pytest.mark.parametrize("cohort", [3, pytest.param(None, marks=thorough)])
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


N, M, STEPS = 4, 2, 3
TINY = DRFA(lr=0.3, weight_lr=0.1, local_steps=STEPS, cohort=M)


@pytest.fixture
def tiny(double):
    """A hub in the middle of a run, and full gradients, so that only t', D and U are random."""
    federation = assemble(FREE, FEDERATION, None, "float64")
    hub = TINY.init_hub(federation.fed, draws.key(0))
    return federation.fed, hub._replace(weights=jnp.array([0.55, 0.3, 0.1, 0.05]))


@pytest.fixture
def play(tiny):
    """One round of the method itself, with the draws that are named put in the place of its own."""
    fed, hub = tiny
    federation = assemble(FREE, FEDERATION, None, "float64")
    root = draws.key(0)

    @jax.jit
    def after(algorithm, stop, chosen):
        def outgoing(request):
            message, to = request.message, request.to
            if request.method == "train" and stop is not None:
                message = message._replace(stop=stop)
            if request.method in chosen:
                ids = chosen[request.method]
                to = Cohort(ids, np.ones(len(ids), bool), repeats=to.repeats)
            return dataclasses.replace(request, message=message, to=to)

        steps = relay(algorithm.round(hub, fed, draws.hub_key(root, 1)), outgoing=outgoing)
        return program.drive(steps, algorithm, federation, ((),), root, 1, PLAN)[0]

    def played(algorithm=TINY, stop=None, **chosen):
        stop = None if stop is None else jnp.int32(stop)
        ids = {method: jnp.array(whom, jnp.int32) for method, whom in chosen.items()}
        return jax.tree.map(np.asarray, after(algorithm, stop, ids))

    return played


def test_the_mean_step_of_lambda_is_the_sum_of_losses_along_the_path(tiny, play, monkeypatch):
    """Lemma 2, over every t' and every U; without n / m it would be false by that factor."""
    _, hub = tiny
    monkeypatch.setattr(drfa_module, "project_floored_simplex", lambda v, floor: v)
    trained = (0, 2)
    steps = [
        play(stop=stop, train=trained, probe=probed).weights - hub.weights
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


def test_drawing_by_lambda_with_replacement_is_unbiased_and_without_is_not(tiny, play):
    """Over every D, with its probability; what runs draws with replacement."""
    fed, hub = tiny
    lam = np.asarray(hub.weights)
    locally = [play(train=(i, i)).model for i in range(N)]
    target = lam @ np.array(locally)
    models = {
        chosen: play(train=chosen).model
        for chosen in itertools.combinations_with_replacement(range(N), M)
    }

    def mean(probability):
        pairs = itertools.product(range(N), repeat=M)
        return sum(probability(i, j) * models[tuple(sorted((i, j)))] for i, j in pairs)

    close(mean(lambda i, j: lam[i] * lam[j]), target)
    without = mean(lambda i, j: 0.0 if i == j else lam[i] * lam[j] / (1 - lam[i]))
    assert np.linalg.norm(without - target) > 0.1 * np.linalg.norm(target)

    def drawn(key):
        request = next(TINY.round(hub, fed, key))
        assert request.to.repeats
        return request.to.ids

    ids = np.asarray(jax.vmap(drawn)(jax.random.split(draws.key(1), 4000)))
    repeated = np.mean(ids[:, 0] == ids[:, 1])
    assert repeated == pytest.approx(lam @ lam, abs=0.03)
    np.testing.assert_allclose(np.bincount(ids.ravel(), minlength=N) / ids.size, lam, atol=0.03)


def test_t_prime_is_one_draw_for_all_from_one_to_the_last_step(tiny):
    fed, hub = tiny

    def stop(key):
        return next(TINY.round(hub, fed, key)).message.stop

    stops = np.asarray(jax.vmap(stop)(jax.random.split(draws.key(2), 3000)))
    assert stops.shape == (3000,)  # a number for the round, not one for each client
    np.testing.assert_allclose(np.bincount(stops, minlength=STEPS + 1)[1:] / 3000, 1 / 3, atol=0.04)


def test_the_authors_sampling_is_unbiased_too(play):
    method = dataclasses.replace(TINY, sampling="uniform")
    models = [play(method, train=chosen).model for chosen in itertools.combinations(range(N), M)]
    everyone = dataclasses.replace(TINY, cohort=None)
    close(np.mean(models, axis=0), play(everyone).model)


def test_drfa_with_one_step_and_everyone_is_afl_but_for_where_losses_are_taken(double):
    """AFL takes them before the step, DRFA at the snapshot, which is after it."""
    one = simulate(AFL(lr=0.3, weight_lr=0.2), rounds=1, batch_size=None)
    other = simulate(DRFA(lr=0.3, weight_lr=0.2, local_steps=1), rounds=1, batch_size=None)
    close(one.model, other.model)
    losses = [CLIENTS.value(i, np.asarray(one.model)) for i in range(CLIENTS.n)]
    close(other.state.hub.weights, robust.simplex(0.25 + 0.2 * np.array(losses)))


@thorough
def test_a_vanishing_mu_makes_drfa_prox_drfa(double):
    plain = simulate(DRFA(lr=0.3, weight_lr=0.2, cohort=3), rounds=20)
    for prior in ("quadratic", "kl"):
        method = DRFAProx(lr=0.3, weight_lr=0.2, mu=1e-12, prior=prior, cohort=3)
        close(simulate(method, rounds=20).model, plain.model, 1e-8)


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
