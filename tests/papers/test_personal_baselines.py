"""Personal baselines against their transcriptions, and where they end."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.algorithms import APFL, Ditto, FedAvg, FedBN, FedPer, FedRep, FineTuning
from fedloom.algorithms.personal.fedbn import norms_of
from fedloom.algorithms.personal.personal_arrays import head_of
from fedloom.errors import ParameterError
from fedloom.layout import layout_of
from fedloom.population import assemble
from fedloom.rows import Spec
from papers import averaging, personal_baselines
from papers.reference import Draws
from papers.test_personal import (
    ALIKE,
    CLIENTS,
    COUNTS,
    GOLDEN,
    LEAST,
    LINEAR,
    LOGISTIC,
    NET,
    REGRESSION,
    close,
    first_state,
    quadratic,
    simulate,
    vector,
)
from tiers import thorough

REGULARISED = fl.problems.Logistic(l2=0.1)


def deployed(method, problem, clients, result):
    """Every client's linear model as it would take it away, where a bias of 0 is added."""
    taken = fl.deploy.take_all(method, problem, clients, result)
    return [np.ravel(jax.tree.leaves(one.arrays)[-1]) for one in taken]


def test_fine_tuning_trains_as_fedavg_and_deploys_what_its_steps_make_of_it(double):
    method = FineTuning(server_lr=0.9, personal_lr=0.3, personal_steps=2, **COUNTS)
    got = simulate(method, REGULARISED, LINEAR, metrics=("loss",))
    w = averaging.fedavg(LOGISTIC, Draws(LOGISTIC, 4), lr=0.2, server_lr=0.9, **GOLDEN)
    own = personal_baselines.fine_tuned(LOGISTIC, w, lr=0.3, steps=2)
    close(got.model, w)
    close(deployed(method, REGULARISED, LINEAR, got), own)
    plain = simulate(FedAvg(server_lr=0.9, **COUNTS), REGULARISED, LINEAR, metrics=("loss",))
    assert (got.client_metrics["loss"] < plain.client_metrics["loss"]).all()


def test_ditto_follows_its_listing(double):
    """Also where a client has not taken part: it has the common model until then."""
    options = {"penalty": 0.6, "personal_lr": 0.3, "personal_steps": 2}
    method = Ditto(**options, **COUNTS)
    for rounds in (1, 4):
        counts = GOLDEN | {"rounds": rounds}
        w, v = personal_baselines.ditto(LOGISTIC, Draws(LOGISTIC, 4), lr=0.2, **options, **counts)
        got = simulate(method, REGULARISED, LINEAR, rounds=rounds)
        close(got.model, w)
        assert len(v) == (3 if rounds == 1 else 4)
        own = deployed(method, REGULARISED, LINEAR, got)
        for i in range(LOGISTIC.n):
            close(own[i], v.get(i, w))


def test_ditto_reaches_the_minimisers_near_the_common_optimum(double):
    """v_i = (H_i + penalty)^-1 (b_i + penalty w), with w the optimum of the mean."""
    method = Ditto(lr=0.1, penalty=2.0, local_steps=1, personal_steps=2)
    got = simulate(method, LEAST, REGRESSION, rounds=2000, batch_size=None)
    hessians, pulls = zip(*map(quadratic, range(4)), strict=True)
    w = np.linalg.solve(np.mean(hessians, axis=0), np.mean(pulls, axis=0))
    close(got.model, w, 1e-9)
    for v, h, b in zip(got.state.clients[0].model, hessians, pulls, strict=True):
        close(v, np.linalg.solve(h + 2 * np.eye(3), b + 2 * w), 1e-9)


def test_apfl_follows_its_listing(double):
    """Also where a client has not taken part, and where a share would leave [0, 1]."""
    options = {"personal_lr": 0.3, "alpha": 0.7, "alpha_lr": 60.0}
    method = APFL(**options, **COUNTS)
    for rounds in (1, 4):
        counts = GOLDEN | {"rounds": rounds}
        w, v, shares = personal_baselines.apfl(
            LOGISTIC, Draws(LOGISTIC, 4), lr=0.2, **options, **counts
        )
        got = simulate(method, REGULARISED, LINEAR, rounds=rounds)
        close(got.model, w)
        own = deployed(method, REGULARISED, LINEAR, got)
        for i in range(LOGISTIC.n):
            close(own[i], shares[i] * v[i] + (1 - shares[i]) * w if i in v else w)
    close([got.state.clients[0].alpha[i] for i in shares], list(shares.values()))
    assert len(set(shares.values())) > 2 and {0.0, 1.0} & set(shares.values())


def test_apfl_reaches_own_minimisers_and_the_common_one(double):
    got = simulate(APFL(lr=0.1, local_steps=1), LEAST, REGRESSION, rounds=3000, batch_size=None)
    hessians, pulls = zip(*map(quadratic, range(4)), strict=True)
    close(got.model, np.linalg.solve(np.mean(hessians, axis=0), np.mean(pulls, axis=0)), 1e-9)
    v, alpha, _ = got.state.clients[0]
    mixtures = alpha[:, None] * v + (1 - alpha[:, None]) * got.model
    for x, h, b in zip(mixtures, hessians, pulls, strict=True):
        close(x, np.linalg.solve(h, b), 1e-9)


HEAD = np.arange(17) >= 8  # of the network of ALIKE: its last layer


def begun(method, problem):
    """The hub's first model, and what each client has of its own."""
    hub, clients = first_state(method, problem)
    return np.asarray(hub.model), [client.own for client in clients]


def test_fedper_follows_its_listing_and_sends_the_body_alone(double):
    method = FedPer(**COUNTS)
    w, heads = begun(method, ALIKE)
    assert not np.allclose(heads[0], heads[1])
    w, heads = personal_baselines.fedper(NET, Draws(NET, 4), w, heads, HEAD, lr=0.2, **GOLDEN)
    got = simulate(method, ALIKE, metrics=("loss",))
    close(vector(got), w)
    close(got.state.clients[0].own, heads)
    # A client uses the common body with its own head, also one that was absent in the last round.
    for one, head in zip(fl.deploy.take_all(method, ALIKE, CLIENTS, got), heads, strict=True):
        arrays = np.concatenate([np.ravel(a) for a in jax.tree.leaves(one.arrays)])
        close(arrays, np.concatenate([w[~HEAD], head]))
    sent = 4 * 3 * 8 * 8  # rounds, clients asked, shared numbers, bytes of one
    assert got.final["bytes_up"] == got.final["bytes_down"] == sent


def test_fedrep_follows_its_listing(double):
    method = FedRep(own="^1", head_lr=0.3, head_steps=2, **COUNTS)
    w, heads = begun(method, ALIKE)
    drawn = Draws(NET, 4)

    def batches(r, i):
        of_head, of_body = jax.random.split(draws.client_key(drawn.root, r, 1, i))
        return [
            [drawn.rows(draws.nth(key, k), i) for k in range(steps)]
            for key, steps in ((of_head, 2), (of_body, 3))
        ]

    counts = {"rounds": 4, "cohort": 3}
    w, heads = personal_baselines.fedrep(
        NET, drawn, batches, w, heads, HEAD, lr=0.2, head_lr=0.3, **counts
    )
    got = simulate(method, ALIKE)
    close(vector(got), w)
    close(got.state.clients[0].own, heads)


def normed(key, spec):
    """A scale and a shift for each feature, then one dense layer."""
    (d,), k = spec.features, spec.classes
    return {
        "norm": {"scale": jnp.ones(d, spec.dtype), "shift": jnp.zeros(d, spec.dtype)},
        "output": {
            "bias": jnp.zeros(k, spec.dtype),
            "weights": jax.random.normal(key, (d, k), spec.dtype),
        },
    }


def scores(arrays, x):
    norm, output = arrays["norm"], arrays["output"]
    return (x * norm["scale"] + norm["shift"]) @ output["weights"] + output["bias"]


def test_fedbn_follows_its_listing_and_finds_the_norms(double):
    problem, method = fl.problems.Personal(fl.models.Pair(normed, scores)), FedBN(**COUNTS)
    w, norms = begun(method, problem)
    close(norms, [[1, 1, 1, 0, 0, 0]] * 4)
    net, own = personal_baselines.Normed(NET), np.arange(len(w)) < 6
    w, norms = personal_baselines.fedper(net, Draws(NET, 4), w, norms, own, lr=0.2, **GOLDEN)
    got = simulate(method, problem)
    close(vector(got), w)
    close(got.state.clients[0].own, norms)


@pytest.mark.parametrize("method", [FedPer, pytest.param(FedRep, marks=thorough)])
def test_bodies_and_heads_reach_the_optimum(method, double):
    """Softmax regression with own biases: their slopes vanish, and the weights' mean slope."""
    problem = fl.problems.Personal(fl.models.MLP(()), l2=0.1)
    options = {"head_steps": 2} if method is FedRep else {}
    run = {"rounds": 3000, "batch_size": None}
    result = simulate(method(lr=0.2, own="bias", local_steps=1, **options), problem, **run)
    federation, w = assemble(problem, CLIENTS, None, "float64"), vector(result)
    slopes = [
        federation.groups[0].objective(i).full_grad(jnp.concatenate([own, w[3:]]))
        for i, own in enumerate(result.state.clients[0].own)
    ]
    close(np.array(slopes)[:, :3], 0, 1e-9)
    close(np.mean(slopes, axis=0)[3:], 0, 1e-9)


FEATURES = {"CNN": (8, 8, 1), "CNN1": (20, 20, 3), "CNN2": (20, 20, 3), "ResNet": (8, 8, 3)}


@pytest.mark.parametrize(
    "name", ["MLP", "CNN", "CNN1", "CNN2", "ResNet", "EmbeddingBag", "Transformer", "GRU"]
)
def test_the_head_of_every_network_is_its_last_layer(name):
    model, spec = getattr(fl.models, name)(), Spec(FEATURES.get(name, (5,)), 7, "float32")
    layout = layout_of(lambda: model.init(jax.random.key(0), spec))
    head = head_of("FedPer", layout).own
    ends = np.cumsum([np.prod(shape) for shape in layout.shapes])
    shapes = [layout.shapes[int(np.searchsorted(ends, stop))] for _, stop in head]
    assert len(shapes) == 2 and all(shape[-1] == 7 for shape in shapes)


def of_arrays(*names):
    return layout_of(lambda: {name: jnp.zeros(2) for name in names})


def test_norms_are_found_by_name_unless_the_network_lists_them():
    imported = of_arrays("conv.weight", "layer1.bn1.weight", "layer1.bn1.running_mean", "subnet.w")
    assert norms_of(imported, ()).own == ((2, 4), (4, 6))
    network = SimpleNamespace(norm_arrays=("conv.weight",))
    seen = SimpleNamespace(layout=imported, problem=SimpleNamespace(model=network))
    assert FedBN(lr=0.1)._parts(seen).own == ((0, 2),)
    spec = Spec((8, 8, 3), 7, "float32")
    layout = layout_of(lambda: fl.models.ResNet().init(jax.random.key(0), spec))
    *layers, _ = (name.removesuffix(".weights") for name in layout.full_names if "w" in name)
    norms = [f"{layer}.{array}" for layer in layers for array in ("bias", "scale")]
    assert norms_of(layout, ()) == norms_of(layout, tuple(norms))


def test_own_arrays_that_cannot_be_told_are_refused_with_the_names_of_all():
    arrays = "The arrays of the network are 0.bias, 0.weights, 1.bias, 1.weights"
    for own, fault in {"fc": "matches no array", ".": "with none left to share"}.items():
        with pytest.raises(ParameterError, match=f"{fault}. {arrays}"):
            simulate(FedPer(lr=0.1, own=own), ALIKE)
    with pytest.raises(ParameterError, match=f"FedBN: the network has no norms.*{arrays}"):
        simulate(FedBN(lr=0.1), ALIKE)
    with pytest.raises(ParameterError, match=r"FedRep: own must name the last layer.*conv\.weight"):
        head_of("FedRep", of_arrays("classifier.weight", "conv.weight"))
    with pytest.raises(ParameterError, match="own must be a regular expression"):
        FedPer(lr=0.1, own="(")
    with pytest.raises(ParameterError, match="FedPer is for personal problems"):
        simulate(FedPer(lr=0.1), fl.problems.Supervised(fl.models.MLP((2,))))
