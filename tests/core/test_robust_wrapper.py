"""Robust aggregation around methods: with a fifth of the clients malicious, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import Compressed, FedAvg, Poisoned, Private, Robust, Scaffold, Unreliable
from fedloom.algorithms.wrappers.aggregated import Aggregated, totals_of
from fedloom.data.clients import from_arrays
from fedloom.errors import DivergedError, ParameterError, ProtocolError, SettingsError
from fedloom.exchange.expected import expected_exchanges
from fedloom.exchange.in_process import InProcess
from fedloom.exchange.secure.sums import sums_of
from fedloom.experiments import settings
from fedloom.experiments.locations import Location
from fedloom.operators.aggregators import (
    CentredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    NormBound,
    TrimmedMean,
)
from fedloom.population import assemble, know
from fedloom.protocol import Cohort, Replies
from laws.trials import BATCH, IN_TURN, trial
from tiers import in_turn, thorough

RNG = np.random.default_rng(5)
TRUTH = np.array([1.0, -2.0, 0.5])
PARTS = []
for _ in range(10):
    x = RNG.normal(size=(30, 3))
    PARTS.append((x, x @ TRUTH + 0.1 * RNG.normal(size=30)))
FALSE = range(2)  # the malicious ones
CLIENTS = from_arrays(PARTS)
FLIPPED = from_arrays([(x, -y if i in FALSE else y) for i, (x, y) in enumerate(PARTS)])
SOLUTION = np.linalg.lstsq(
    np.concatenate([x for x, _ in PARTS[2:]]), np.concatenate([y for _, y in PARTS[2:]])
)[0]
SQUARES = fl.problems.LeastSquares()
METHODS = {
    "fedavg": FedAvg(lr=0.1, local_steps=3),
    "scaffold": Scaffold(lr=0.1, local_steps=3),
}
RULES = {
    "median": Median(),
    "trimmed mean": TrimmedMean(fraction=0.2),
    "krum": Krum(malicious=2),
    "multi-krum": MultiKrum(malicious=2),
    "geometric median": GeometricMedian(),
    "centred clipping": CentredClipping(radius=0.1),
    "norm bound": NormBound(bound=0.1),
}
# Those that only shorten replies let a fifth of the bound through, for ever.
NEAR = {"centred clipping": 0.15, "norm bound": 0.15}
ATTACKS = {"sign_flip": 10.0, "scaled": 100.0, "same_value": 1e3}
one_method = pytest.mark.parametrize("method", in_turn(METHODS, ["scaffold"]))
# Every rule within FedAvg. Within SCAFFOLD, whose hub adds up what clients keep, one rule of each
# kind: of coordinates, of whole replies, and one that shortens them.
WITH_SCAFFOLD = ("median", "geometric median", "norm bound")
CASES = [
    pytest.param(m, r, marks=() if m == "fedavg" or r in WITH_SCAFFOLD else thorough, id=f"{m}-{r}")
    for m in METHODS
    for r in RULES
]


def distance(method, clients=CLIENTS, rounds=80):
    """How far the model ends from the solution of the honest clients."""
    options = {"batch_size": None, "eval_every": rounds, "precision": "float64"}
    try:
        model = fl.simulate(
            method, SQUARES, clients, rounds=rounds, metrics=("loss",), **options
        ).model
    except DivergedError:
        return np.inf
    return np.linalg.norm(np.asarray(model).ravel() - SOLUTION)


def test_one_site_that_sends_a_thousand(double):
    """The mean of 1 and 1e3 is 501; of three sites, the median is an honest one's."""
    cohort = Cohort(np.arange(3, dtype=np.int32), np.ones(3, bool))
    replies = Replies(jnp.array([[1.0], [1e3], [2.0]]), cohort)
    fed = know(SQUARES, from_arrays(PARTS[:3]), "float64")
    assert replies.mean()[0] > 300
    assert Aggregated(replies, Median(), fed, ("", ""), ()).mean()[0] == 2


@one_method
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_plain_mean_fails(method, attack):
    # A few rounds: later the numbers are too large for the square of a distance.
    false = Poisoned(METHODS[method], attack, size=ATTACKS[attack])
    assert distance(false, rounds=20) > 1


@pytest.mark.parametrize("method,rule", CASES)
def test_a_fifth_of_the_clients_cannot_spoil_the_model(method, rule):
    robust, near = Robust(METHODS[method], RULES[rule]), NEAR.get(rule, 0.03)
    if (method, rule) == ("scaffold", "norm bound"):  # a tighter one would slow the controls down
        robust, near = Robust(METHODS[method], NormBound(bound=0.3)), 0.35
    assert distance(robust) < 0.03
    assert distance(robust, FLIPPED) < near < 0.9 < distance(METHODS[method], FLIPPED)
    assert distance(Poisoned(robust, "same_value", size=1e3)) < near


@one_method
@pytest.mark.parametrize("attack", ["sign_flip", "scaled"])
def test_other_attacks_on_the_median(method, attack):
    robust = Robust(METHODS[method], Median())
    assert distance(Poisoned(robust, attack, size=ATTACKS[attack])) < 0.03


def test_with_cohorts_and_lost_clients():
    few = Robust(Scaffold(lr=0.1, local_steps=3, cohort=7), GeometricMedian())
    assert distance(Poisoned(few, "same_value", size=1e3), rounds=200) < 0.03
    lost = Unreliable(Robust(METHODS["scaffold"], GeometricMedian()), drop=0.2)
    assert distance(Poisoned(lost, "same_value", size=1e3)) < 0.03


@one_method
def test_engines_agree(method, double):
    poisoned = Poisoned(
        Robust(METHODS[method], GeometricMedian()), "sign_flip", fraction=0.2, size=10.0
    )
    network = InProcess(poisoned, SQUARES, CLIENTS, batch_size=None, precision="float64")
    for _ in range(3):
        network.step()
    simulated = fl.simulate(
        poisoned, SQUARES, CLIENTS, rounds=3, batch_size=None, precision="float64"
    )
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)  # noqa: E731
    jax.tree.map(close, simulated.state.hub, network.hub)


# What the method inside gets


def replies_of(values, present=None, repeats=False, ids=None):
    m = len(values)
    ids = np.arange(m, dtype=np.int32) if ids is None else np.asarray(ids, np.int32)
    present = np.ones(m, bool) if present is None else np.asarray(present)
    return Replies(jnp.asarray(values), Cohort(ids, present, repeats))


class Mean(fl.aggregators.Aggregator):
    """The rule that changes nothing."""

    def combine(self, values, weights, there):
        return weights @ values


def test_with_a_mean_for_an_aggregator_nothing_changes(double):
    weights = RNG.uniform(0.1, 1, 10)
    values = {"a": RNG.normal(size=(4, 2)), "b": RNG.normal(size=(4, 1, 3))}
    cohort = Cohort(np.array([3, 1, 7, 2]), np.array([True, True, False, True]))
    plain = Replies(jax.tree.map(jnp.asarray, values), cohort)
    fed = know(SQUARES, CLIENTS, "float64")
    robust = Aggregated(plain, Mean(), fed, ("", ""), ())
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12)  # noqa: E731
    for way in ("sum", "average", "estimate"):
        jax.tree.map(close, getattr(plain, way)(weights), getattr(robust, way)(weights))
    jax.tree.map(close, plain.mean(), robust.mean())
    jax.tree.map(close, plain.sum(), robust.sum())
    twice = lambda reply: jax.tree.map(lambda v: v * v, reply)  # noqa: E731
    jax.tree.map(close, plain.map(twice).mean(), robust.map(twice).mean())
    so_far = jax.tree.map(lambda v: jnp.asarray(RNG.normal(size=(10, *v.shape[1:]))), values)
    adding = Aggregated(plain, Mean(), fed, ("", ""), so_far)
    jax.tree.map(close, plain.sum(fed.weights), adding.sum(fed.weights))
    after = jax.tree.map(jnp.add, so_far, plain.scatter(10))
    jax.tree.map(close, after, adding.total())


def test_a_reply_is_trusted_as_a_whole(double):
    """Krum takes all parts of a reply from one client."""
    values = {"a": RNG.normal(size=(5, 2)), "b": RNG.normal(size=(5, 3))}
    replies = Replies(jax.tree.map(jnp.asarray, values), replies_of(values["a"]).cohort)
    chosen = Aggregated(replies, Krum(1), know(SQUARES, CLIENTS, "float64"), ("", ""), ()).mean()
    (same,) = np.flatnonzero((values["a"] == chosen["a"]).all(1))
    np.testing.assert_array_equal(values["b"][same], chosen["b"])


def test_replies_that_are_not_finite_and_repeats(double):
    fed = know(SQUARES, CLIENTS, "float64")
    broken = replies_of(np.array([[1.0], [np.nan], [3.0], [np.inf]]))
    seen = Aggregated(broken, Median(), fed, ("", ""), ())
    np.testing.assert_array_equal(seen.cohort.present, [True, False, True, False])
    assert seen.sum() == 2 * 2.0  # two are there
    values = np.array([[9.0], [1.0], [9.0], [2.0], [3.0]])
    often = replies_of(values, ids=[4, 1, 4, 2, 3], repeats=True)
    assert Aggregated(often, Krum(0), fed, ("", ""), ()).mean() < 4  # no neighbour of itself
    assert Aggregated(often, Median(), fed, ("", ""), ()).mean() == 3  # of 1, 2, 3, 9, 9
    with pytest.raises(ProtocolError, match="Use mean"):
        Aggregated(often, Median(), fed, ("", ""), ()).estimate(fed.weights)


def test_totals_are_kept_where_a_hub_adds_up_what_clients_keep(double):
    fed, key = know(SQUARES, CLIENTS, "float64"), jax.random.key(0)
    assert totals_of(METHODS["fedavg"], fed, key) == ()
    (total,) = totals_of(METHODS["scaffold"], fed, key)
    assert total.control_change.shape == (10, 3) and not total.control_change.any()


def test_aggregates_of_changes_would_drift(monkeypatch):
    """Why there are totals."""
    method = Scaffold(lr=0.1, local_steps=4)  # of its own, as programs are kept
    monkeypatch.setattr("fedloom.algorithms.wrappers.robust.totals_of", lambda *_: ())
    assert distance(Poisoned(Robust(method, Median()), "same_value", size=1e3)) > 0.3


def test_totals_of_models_that_read_texts():
    """Whole numbers for features, and a label at every place of a row."""
    texts = [RNG.integers(0, 5, (4, 7)) for _ in range(3)]
    clients = from_arrays([(text[:, :-1], text[:, 1:]) for text in texts])
    problem = fl.problems.Supervised(fl.models.GRU(embedding=2, hidden=3))
    method = Robust(METHODS["scaffold"], Median())
    assert fl.simulate(method, problem, clients, rounds=1, batch_size=2).model is not None


# What is refused

SINGLE = ("ffmdr", "ffmdr_consensus", "afl", "drfa", "drfa_prox", "drfa_ga", "scaff_pd")


@pytest.mark.parametrize("entry", [p for p in IN_TURN if p.values[0].family != "wrappers"])
def test_every_method_is_taken_or_refused_by_name(entry, double):
    tried = trial(entry.kind)
    whole = assemble(tried.problem, tried.clients, BATCH, "float64")

    def said():
        return expected_exchanges(Robust(entry.example(), Median()), whole)

    if entry.family == "vertical":
        with pytest.raises(ParameterError, match=f"{entry.name} is a vertical one"):
            said()
    elif entry.key in SINGLE:
        with pytest.raises(ProtocolError, match=rf"(hub|to '\w+') of {entry.name}"):
            said()
    else:
        assert said()["round"]


def test_too_many_malicious_for_a_cohort_are_refused_before_the_first_round():
    few = Robust(FedAvg(lr=0.1, cohort=4), Krum(malicious=1))
    with pytest.raises(ParameterError, match=r"Krum: malicious must .* clients asked, 4"):
        fl.simulate(few, SQUARES, CLIENTS, rounds=1)


def test_other_wrappers_stand_outside():
    inside = FedAvg(lr=0.1)
    packed = {"compressor": fl.compressors.TopK(per_cent=50)}
    for wrapper in (Unreliable(inside), Compressed(inside, **packed), Poisoned(inside, "scaled")):
        with pytest.raises(ParameterError, match=f"got {type(wrapper).__name__} inside it. Swap"):
            Robust(wrapper, Median())
    robust = Robust(inside, Median())
    with pytest.raises(ParameterError, match="Robust has nothing to compare"):
        Private(Unreliable(robust), clip=1, noise=1)
    assert distance(Private(robust, clip=9, noise=0, at="client")) < 0.03


def test_secure_sums_and_robust_means_exclude_each_other():
    whole = assemble(SQUARES, CLIENTS, None, "float32")
    robust = Poisoned(Robust(FedAvg(lr=0.1), Median()), "scaled")
    with pytest.raises(ProtocolError, match="the hub learns nothing but their sum"):
        sums_of(robust, whole)
    tables = {
        "data": {"label": "y"},
        "problem": {"kind": "least_squares"},
        "algorithm": {"key": "fedavg", "lr": 0.1},
        "wrapper": [{"kind": "robust", "aggregator": {"kind": "trimmed_mean", "fraction": 0.3}}],
        "federation": {"secure_aggregation": True},
    }
    with pytest.raises(SettingsError, match=r"federation\.secure_aggregation: robust aggregation"):
        settings.parse(tables, Location("s.toml", ""))
    tables["federation"]["secure_aggregation"] = False
    assert settings.parse(tables, Location("s.toml", "")).algorithm.aggregator.fraction == 0.3
