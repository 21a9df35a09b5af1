"""The personal family against its transcriptions, and what the papers say of it."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.algorithms import (
    FedAvg,
    LocalTraining,
    MutualLearning,
    PerFedAvg,
    PFedMe,
    Quantisation,
    QuantisedTraining,
    QuPeD,
    QuPeL,
)
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.personal.quantisation import QuantisedModel, freeze
from fedloom.errors import ParameterError
from fedloom.operators.quantisers import Quantiser
from fedloom.population import assemble
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from papers import personal
from papers.personal import Levels, Networks
from papers.reference import Draws, LogisticClients
from tiers import thorough

NET = Networks()
CLIENTS = fl.data.from_arrays(NET.parts())
COMMON, OWN = fl.models.MLP((2,)), (fl.models.MLP((3,)), fl.models.MLP((2,)))
MIXED = fl.problems.Personal(COMMON, OWN, bits=(2, 32), keep=(-1,), l2=0.1)
ALIKE = fl.problems.Personal(COMMON, bits=1, keep=(-1,), l2=0.1)
RUN = {"rounds": 4, "batch_size": 4, "precision": "float64", "eval_every": 100, "metrics": ()}
COUNTS = {"lr": 0.2, "local_steps": 3, "cohort": 3}
GOLDEN = {"steps": 3, "rounds": 4, "cohort": 3}
DECAY = {"decay": 0.8}  # a pass over the rows, of which the goldens make several


def simulate(method, problem, clients=CLIENTS, **options):
    return fl.simulate(method, problem, clients, **RUN | options)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@jax.jit
def _first_state(method, federation):
    return program.first_state(method, federation, draws.key(0), Plan(None, None))


def first_state(method, problem):
    """The hub's and every client's state before the first round."""
    hub, groups = jax.device_get(_first_state(method, assemble(problem, CLIENTS, 4, "float64")))
    return hub, by_client(problem, groups)


def by_client(problem, groups):
    states = {}
    for (_, members), group in zip(problem.groups(CLIENTS), groups, strict=True):
        for place, i in enumerate(range(4) if members is None else members):
            states[i] = jax.tree.map(lambda leaf: np.asarray(leaf[place]), group)  # noqa: B023
    return [states[i] for i in range(4)]


def passes(i, steps):
    return steps // -(-len(NET.y[i]) // 4)


def vector(result):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(result.model)])


QUANTISERS = {
    "hard": {},
    "released sign, by cell": {"centre_sign": "released", "per_cell": True},
    "bounded": {"weight_bound": 0.3, "centre_bound": 0.05},
    "soft": {"sharpness": 4.0},
}


def quped(**options):
    quantise = Quantisation(pull=0.05, pull_growth=1.1, centre_lr=0.05, **options)
    return QuPeD(common_lr=0.3, guidance=0.4, quantise=quantise, **COUNTS | DECAY)


@pytest.mark.parametrize("name", QUANTISERS)
def test_quped_follows_its_listing(name, double):
    """Two architectures, 2 bits and full precision, three of four clients a round.

    As released, it is also strict: a round has one step less.
    """
    method, strict = quped(**QUANTISERS[name]), name.startswith("released")
    method, quantise = dataclasses.replace(method, strict_listing=strict), method.quantise
    hub, clients = first_state(method, MIXED)
    level = Levels(
        3, 12, pull=0.05, centre_lr=0.05, sign=-1.0 if strict else 1.0,
        per_cell=quantise.per_cell, sharpness=quantise.sharpness, growth=1.1,
        weight_bound=quantise.weight_bound, centre_bound=quantise.centre_bound,
    )  # fmt: skip
    levels = [level, None, level, None]
    for client, own in zip(clients, levels, strict=True):
        if own is not None:
            close(client.centres[0], own.first(client.model, 4))
    w, x, c = personal.quped(
        NET, Draws(NET, 4), np.asarray(hub.model), [client.model for client in clients],
        [None if own is None else client.centres[0]
         for client, own in zip(clients, levels, strict=True)],
        levels, lr=0.2, common_lr=0.3, lp=0.4, passes=passes,
        **GOLDEN | DECAY | {"steps": 3 - strict},
    )  # fmt: skip
    got = simulate(method, MIXED)
    close(vector(got), w)
    for i, client in enumerate(by_client(MIXED, got.state.clients)):
        close(client.model, x[i])
        if levels[i] is not None:
            close(client.centres[0], c[i])


def test_qupel_follows_its_listing(double):
    """One bit; own models begin at the common one."""
    quantise = Quantisation(pull=0.05, centre_lr=0.05)
    method = QuPeL(common_lr=0.3, closeness=0.4, quantise=quantise, **COUNTS | DECAY)
    hub, _ = first_state(method, ALIKE)
    level = Levels(2, 8, pull=0.05, centre_lr=0.05)
    w, x, c = personal.qupel(
        NET, Draws(NET, 4), np.asarray(hub.model), level, m=2, lr=0.2, common_lr=0.3, lp=0.4,
        passes=passes, **GOLDEN | DECAY,
    )  # fmt: skip
    got = simulate(method, ALIKE)
    close(vector(got), w)
    for i, client in enumerate(by_client(ALIKE, got.state.clients)):
        close(client.model, x[i])
        close(client.centres[0], c[i])


def test_quantised_training_follows_its_listing(double):
    """Algorithm 1 at each client alone: the steps of QuPeD, on the loss only."""
    quantise = Quantisation(bits=2, pull=0.05, centre_lr=0.05)
    method = QuantisedTraining(quantise=quantise, lr=0.2, local_steps=3, **DECAY)
    _, clients = first_state(method, ALIKE)
    level = Levels(2, 8, pull=0.05, centre_lr=0.05)
    got = by_client(ALIKE, simulate(method, ALIKE).state.clients)
    drawn = Draws(NET, 4)
    for i in range(NET.n):
        x, c, done = clients[i].point.model, clients[i].point.centres[0], 0
        for r in range(1, 5):
            for batch in drawn.batches(r, 1, i, 3):
                slope = lambda v: NET.grad(i, v, batch)  # noqa: B023, E731
                t = passes(i, done)
                x, c = personal.personal_step(x, c, level, slope, 0.2 * 0.8**t, t + 1)
                done += 1
        close(got[i].point.model, x)
        close(got[i].point.centres[0], c)


def test_mutual_learning_follows_its_listing(double):
    method = MutualLearning(guidance=0.3, common_guidance=0.6, **COUNTS | DECAY)
    hub, clients = first_state(method, MIXED)
    w, x = personal.mutual_learning(
        NET, Draws(NET, 4), np.asarray(hub.model), [client.model for client in clients], lr=0.2,
        a=0.3, b=0.6, passes=passes, **GOLDEN | DECAY,
    )  # fmt: skip
    got = simulate(method, MIXED)
    close(vector(got), w)
    for i, client in enumerate(by_client(MIXED, got.state.clients)):
        close(client.model, x[i])


LOGISTIC = LogisticClients()
LINEAR = fl.data.from_arrays(LOGISTIC.parts())


def test_pfedme_follows_its_listing(double):
    method = PFedMe(penalty=2.0, outer_lr=0.2, inner_steps=2, mixing=0.7, **COUNTS)
    w, own = personal.pfedme(
        LOGISTIC, Draws(LOGISTIC, 4), lr=0.2, penalty=2.0, outer_lr=0.2, inner=2, mixing=0.7,
        **GOLDEN,
    )  # fmt: skip
    got = simulate(method, fl.problems.Logistic(l2=0.1), LINEAR)
    close(got.model, w)
    close(got.state.clients[0].personal, own)


@pytest.mark.parametrize("name", ["pfedme", "ditto", "apfl"])
def test_who_was_never_asked_has_the_hubs_model(name, double):
    method = dataclasses.replace(CATALOGUE[name].example(), cohort=1)
    state = simulate(method, fl.problems.Logistic(l2=0.1), LINEAR, rounds=1).state
    models = jax.vmap(lambda own: method.deployed(state.hub.model, own, None))(state.clients[0])
    as_the_hub = (np.asarray(models) == np.asarray(state.hub.model)).all(1)
    assert (~as_the_hub).sum() == 1


@pytest.mark.parametrize("variant", ["first-order", "hessian-free"])
def test_per_fedavg_follows_its_listing(variant, double):
    drawn = Draws(LOGISTIC, 4)

    def triples(r, i, k):
        step = jax.random.split(draws.client_key(drawn.root, r, 1, i), 3)[k]
        return [drawn.rows(key, i) for key in jax.random.split(step, 3)]

    w = personal.per_fedavg(
        LOGISTIC, triples, drawn, lr=0.2, a=0.3, hessian_free=variant == "hessian-free", **GOLDEN
    )
    method = PerFedAvg(personal_lr=0.3, variant=variant, **COUNTS)
    got = simulate(method, fl.problems.Logistic(l2=0.1), LINEAR)
    close(got.model, w, 1e-10 if variant == "hessian-free" else 1e-12)  # differences of length 1e-3


ALONE = {"lr": 0.3, "local_steps": "2 epochs", "cohort": 3, "decay": 0.9}
SINGLE = {"precision": "float32", "rounds": 6, "metrics": None}


def test_quped_without_guidance_and_bits_is_local_training_bit_for_bit():
    """Also where clients take unequal numbers of steps, and step sizes decay."""
    own = simulate(LocalTraining(**ALONE), MIXED, **SINGLE)
    alone = simulate(QuPeD(guidance=0.0, **ALONE), MIXED, **SINGLE)
    for mine, theirs in zip(own.state.clients, alone.state.clients, strict=True):
        np.testing.assert_array_equal(mine.model, theirs.model)
        np.testing.assert_array_equal(mine.steps, theirs.steps)
    assert own.client_metrics["loss"].tolist() == alone.client_metrics["loss"].tolist()
    guided = simulate(QuPeD(guidance=0.5, **ALONE), MIXED, **SINGLE)
    assert (own.client_metrics["loss"] != guided.client_metrics["loss"]).all()


def test_one_message_of_the_common_model_each_way():
    """Whatever the own models are; and none in local training."""
    common = 8 * (3 * 2 + 2 + 2 * 3 + 3)
    final = simulate(quped(), MIXED).final
    assert final["bytes_up"] == final["bytes_down"] == RUN["rounds"] * 3 * common
    final = simulate(LocalTraining(**ALONE), MIXED, **SINGLE).final
    assert final["bytes_up"] == final["bytes_down"] == 0


def test_after_freezing_weights_keep_their_cells_and_the_rest_is_trained():
    quantise = Quantisation(pull=0.02, centre_lr=1e-2, freeze_after=4, tuning_centre_lr=1e-2)
    method = QuPeD(lr=0.2, quantise=quantise, local_steps="1 epoch")
    runs = {rounds: simulate(method, ALIKE, rounds=rounds) for rounds in (3, 5, 12)}
    at = {rounds: run.state.clients[0] for rounds, run in runs.items()}
    layer, free = slice(2, 8), np.r_[0:2, 8:17]
    assert not all(len(np.unique(x[layer])) <= 2 for x in at[3].model)
    for i in range(NET.n):
        for rounds in (5, 12):
            assert set(np.unique(at[rounds].model[i][layer])) <= set(at[rounds].centres[i, 0])
        cells = [np.searchsorted(at[r].centres[i, 0], at[r].model[i][layer]) for r in (5, 12)]
        np.testing.assert_array_equal(*cells)
        assert (at[5].centres[i] != at[12].centres[i]).all()
        assert (at[5].model[i][free] != at[12].model[i][free]).any()


def test_weights_go_to_their_centres_when_it_is_time_and_not_before(double):
    f = SimpleNamespace(quantiser=lambda bits, sharpness: Quantiser(((1, 3),), 2), batches=2)
    x, centres = jnp.array([5.0, 0.2, 0.9, 6.0]), jnp.array([[0.0, 1.0]])
    settled = [5, 0, 1, 6]
    for after, steps, expected in ((4, 7, x), (4, 8, settled), (0, 0, settled), (None, 99, x)):
        point = QuantisedModel(x, centres, jnp.asarray(steps))
        frozen = freeze(Quantisation(freeze_after=after), f, point)
        np.testing.assert_array_equal(frozen.model, expected)
        np.testing.assert_array_equal(frozen.centres, centres)


def test_clients_deploy_the_quantised_model():
    """Metrics are of Q_c(x), with each client's own network on its own test rows."""
    clients = fl.data.from_arrays(NET.parts(), test=NET.parts()[::-1])
    method = QuPeD(lr=0.2, quantise=Quantisation(pull=0.02))
    result = simulate(method, MIXED, clients, rounds=6, metrics=("accuracy",))
    for i, client in enumerate(by_client(MIXED, result.state.clients)):
        x = client.model
        if i % 2 == 0:
            x = Levels(3, 12, pull=0, centre_lr=0).hard(x, client.centres[0])
        right = NET.log_probs(3 - i, x, slice(None)).argmax(1) == NET.y[3 - i]
        close(result.client_metrics["accuracy"][i], right.mean())


@thorough
def test_the_published_networks_train_together():
    """CNN1 in 2 bits at one client, CNN2 at full precision at another, one common CNN1."""
    rng = np.random.default_rng(4)
    images = [rng.normal(size=(n, 20, 20, 3)).astype(np.float32) for n in (4, 6)]
    clients = fl.data.from_arrays([(x, np.arange(len(x)) % 2) for x in images])
    own = (fl.models.CNN1(), fl.models.CNN2())
    problem = fl.problems.Personal(fl.models.CNN1(), own, (2, 32))
    method = QuPeD(lr=0.05, local_steps=1, quantise=Quantisation())
    result = fl.simulate(method, problem, clients, rounds=1, batch_size=4, eval_every=1)
    common = sum(leaf.size for leaf in jax.tree.leaves(result.model))
    assert result.final["bytes_up"] == result.final["bytes_down"] == 2 * 4 * common
    small, full = fl.deploy.take_all(method, problem, clients, result)
    assert (type(small.model), type(full.model)) == (fl.models.CNN1, fl.models.CNN2)
    assert small.sizes.layers_packed < small.sizes.layers_float32 / 15  # 2 bits of 32
    assert full.sizes.packed == full.sizes.float32 > small.sizes.float32


def test_methods_of_other_families_train_the_common_network():
    plain = fl.problems.Supervised(COMMON, l2=0.1)
    one, other = (simulate(FedAvg(lr=0.1), p, metrics=("loss",)) for p in (MIXED, plain))
    close(vector(one), vector(other))
    assert one.final["loss"] == pytest.approx(other.final["loss"])


def test_qupel_at_full_precision_reaches_the_optimum(double):
    """Softmax regression: each gradient vanishes, and w is the mean of the own models."""
    problem = fl.problems.Personal(fl.models.MLP(()), l2=0.1)
    method = QuPeL(lr=0.2, common_lr=1.0, closeness=0.5, local_steps=1)
    result = simulate(method, problem, rounds=3000, batch_size=None)
    w, own = vector(result), result.state.clients[0].model
    close(own.mean(0), w, 1e-9)
    federation = assemble(problem, CLIENTS, None, "float64")
    for i, x in enumerate(own):
        slope = federation.groups[0].objective(i).own.full_grad(jnp.asarray(x)) + 0.5 * (x - w)
        close(slope, 0, 1e-9)


def quadratic(i):
    """H and b of client i: f_i(w) = |A w - y|^2 / (2 m) + l2 / 2 |w|^2."""
    a, y = LOGISTIC.x[i], LOGISTIC.y[i]
    return a.T @ a / len(y) + 0.1 * np.eye(3), a.T @ y / len(y)


LEAST = fl.problems.LeastSquares(l2=0.1)
REGRESSION = fl.data.from_arrays([(x, y.astype(float)) for x, y in LOGISTIC.parts()])


def test_pfedme_reaches_the_minimiser_of_the_envelopes(double):
    method = PFedMe(lr=0.05, penalty=2.0, outer_lr=0.5, inner_steps=400, local_steps=1)
    got = simulate(method, LEAST, REGRESSION, rounds=200, batch_size=None)
    # Each personal model is (H + penalty)^-1 (b + penalty w), and w is their mean.
    inverse = [np.linalg.inv(quadratic(i)[0] + 2 * np.eye(3)) for i in range(4)]
    lhs = np.eye(3) - np.mean([2 * p for p in inverse], axis=0)
    rhs = np.mean([p @ quadratic(i)[1] for i, p in enumerate(inverse)], axis=0)
    close(got.model, np.linalg.solve(lhs, rhs), 1e-9)


def test_per_fedavg_reaches_the_minimiser_after_one_step(double):
    """Hessian-free it is exact on quadratics; first-order it is not."""
    a, moved = 0.1, [np.eye(3) - 0.1 * quadratic(i)[0] for i in range(4)]
    lhs = np.mean([m @ quadratic(i)[0] @ m for i, m in enumerate(moved)], axis=0)
    rhs = np.mean([m @ m @ quadratic(i)[1] for i, m in enumerate(moved)], axis=0)
    optimum = np.linalg.solve(lhs, rhs)
    settings = {"lr": 0.3, "personal_lr": a, "local_steps": 1}
    run = {"rounds": 2000, "batch_size": None}
    exact = simulate(PerFedAvg(**settings), LEAST, REGRESSION, **run)
    close(exact.model, optimum, 1e-9)
    first = simulate(PerFedAvg(variant="first-order", **settings), LEAST, REGRESSION, **run)
    assert np.linalg.norm(first.model - optimum) > 1e-3


def test_misuse_is_explained():
    with pytest.raises(ParameterError, match="Use QuPeD where architectures differ"):
        simulate(QuPeL(lr=0.1), MIXED)
    bare = fl.problems.Personal(COMMON)
    with pytest.raises(ParameterError, match="leaves no layer"):
        simulate(QuPeD(lr=0.1, quantise=Quantisation(bits=2)), bare)
    with pytest.raises(ParameterError, match="bits must be 1 to 8, or 32"):
        fl.problems.Personal(COMMON, bits=(2, 16))
    with pytest.raises(ParameterError, match="local_steps must be at least 2"):
        QuPeD(lr=0.1, local_steps=1, strict_listing=True)
    with pytest.raises(ParameterError, match="own must be a network"):
        fl.problems.Personal(COMMON, own=(COMMON, "cnn"))
    with pytest.raises(ParameterError, match="QuPeD is for personal problems"):
        simulate(QuPeD(lr=0.1), fl.problems.Supervised(COMMON))
    with pytest.raises(fl.FedloomError, match="needs class labels"):
        simulate(QuPeD(lr=0.1), bare, REGRESSION)
