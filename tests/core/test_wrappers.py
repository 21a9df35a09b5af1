"""Private and unreliable clients: what the wrappers change, and what they promise."""

import math

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import fedloom as fl
from fedloom.algorithms import FedAvg, FedDR, Private, Scaffold, Unreliable
from fedloom.algorithms.wrappers.base import Wrapper, innermost, layers
from fedloom.algorithms.wrappers.private import clipped, sealed
from fedloom.cohorts import by_weight
from fedloom.data.clients import from_arrays
from fedloom.errors import ParameterError, ProtocolError
from fedloom.experiments import searching
from fedloom.measuring import privacy_ledger
from fedloom.parameters import instance_of, param
from fedloom.population import assemble
from fedloom.protocol import Algorithm, Cohort, Replies, algorithm, ask, relay

RNG = np.random.default_rng(0)
PARTS = [(RNG.normal(size=(6, 3)), RNG.integers(0, 2, 6)) for _ in range(8)]
CLIENTS = from_arrays(PARTS)
LOGISTIC = fl.problems.Logistic(l2=0.1)
AVERAGE = FedAvg(lr=0.5, local_steps=2)


def run(method, rounds=3, **options):
    settings = {"batch_size": None, "eval_every": rounds, "precision": "float64"}
    return fl.simulate(method, LOGISTIC, CLIENTS, rounds=rounds, **settings | options)


def test_what_is_inside_of_all_wrappers_is_found():
    method = AVERAGE
    for _ in range(3):
        assert innermost(method) is AVERAGE
        assert next(layers(method)) is method
        method = Unreliable(method, drop=0.5)


# Private


def test_without_noise_and_with_room_nothing_changes():
    np.testing.assert_allclose(
        run(Private(AVERAGE, clip=1e9, noise=0)).model, run(AVERAGE).model, rtol=1e-12
    )


def test_a_reply_is_clipped_as_one_vector(double):
    tree = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    short = clipped(tree, 1.0)
    np.testing.assert_allclose(short["a"], [0.6, 0])
    np.testing.assert_allclose(short["b"], [[0.8]])
    jax.tree.map(np.testing.assert_array_equal, clipped(tree, 6.0), tree)
    broken = {"a": jnp.array([jnp.nan, 1.0]), "b": jnp.array([[1.0]])}
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(clipped(broken, 1.0)))


def test_the_model_moves_by_at_most_clip_a_round():
    moved = np.linalg.norm(run(Private(AVERAGE, clip=0.01, noise=0), rounds=1).model)
    assert moved <= 0.01 + 1e-12 and np.linalg.norm(run(AVERAGE, rounds=1).model) > 0.05


def test_noise_has_the_stated_size(double):
    """At the hub, noise x clip on the sum; at the clients, as much on every reply."""
    cohort = Cohort(np.arange(8, dtype=np.int32), np.ones(8, bool))
    method = Private(AVERAGE, clip=0.5, noise=3.0)
    silent = Replies(jnp.zeros((8, 40_000)), cohort)
    pooled = method._pooled(silent, jax.random.key(0))
    assert np.ptp(np.asarray(pooled.value), axis=0).max() == 0  # every client says the same
    assert np.std(pooled.sum()) == pytest.approx(1.5, rel=0.02)
    noise = method._with_noise(jnp.zeros(40_000), jax.random.key(1))
    assert np.std(noise) == pytest.approx(1.5, rel=0.02)
    assert stats.kstest(noise / 1.5, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(pooled.value[0], noise)[0, 1]) < 0.03


def test_noise_falls_on_the_sum_of_those_who_arrived(double):
    present = np.arange(8) < 2
    replies = Replies(jnp.ones((8, 3)), Cohort(np.arange(8, dtype=np.int32), present))
    pooled = Private(AVERAGE, clip=2.0, noise=0)._pooled(replies, jax.random.key(0))
    np.testing.assert_allclose(pooled.mean(), 1)
    np.testing.assert_allclose(pooled.sum(), 2)


def test_the_hub_relies_on_nobody_for_clipping(double):
    cohort = Cohort(np.arange(4, dtype=np.int32), np.ones(4, bool))
    method = Private(AVERAGE, clip=0.5, noise=0)
    total = method._pooled(Replies(10.0 * jnp.eye(4), cohort), jax.random.key(0)).sum()
    np.testing.assert_allclose(total, np.full(4, 0.5))


def test_a_client_that_occurs_twice_weighs_no_more(double):
    cohort = Cohort(np.array([5, 1, 5, 2], np.int32), np.ones(4, bool), repeats=True)
    replies = Replies(jnp.eye(4)[jnp.array([0, 1, 0, 2])], cohort)
    total = Private(AVERAGE, clip=1.0, noise=0)._pooled(replies, jax.random.key(0)).sum()
    np.testing.assert_allclose(total, [1, 1, 1, 0])


def analytic_epsilon(multiplier, delta):
    """The exact epsilon of one Gaussian mechanism (Balle, Wang, ICML 2018, Theorem 8)."""

    def excess(epsilon):
        a, b = 0.5 / multiplier, epsilon * multiplier
        return stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b) - delta

    return optimize.brentq(excess, 0, 50)


@pytest.mark.parametrize("rounds", [1, 20])
def test_epsilon_bounds_the_exact_loss_of_gaussian_noise(rounds):
    noise = 10.0
    spent = run(Private(AVERAGE, clip=1, noise=noise), rounds=rounds).final["epsilon"]
    exact = analytic_epsilon(noise / 2 / math.sqrt(rounds), 1e-5)
    assert exact <= spent <= 1.15 * exact


def test_sampling_is_credited_only_where_it_is_uniform_and_hidden():
    def spent(method):
        federation = assemble(LOGISTIC, CLIENTS, None, "float32")
        return privacy_ledger.ledger(method, federation)(10)["epsilon"]

    few, noise = FedAvg(lr=0.5, cohort=2), {"clip": 1, "noise": 8.0}
    sampled, everyone = spent(Private(few, **noise)), spent(Private(AVERAGE, **noise))
    assert sampled < 0.7 * everyone
    assert spent(Private(few, **noise, at="client")) == pytest.approx(everyone)
    assert spent(Unreliable(Private(few, **noise), drop=0.5)) == pytest.approx(sampled)
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp.SampledWithoutReplacementDpEvent(8, 2, dp.GaussianDpEvent(4.0)), 10)
    assert sampled == pytest.approx(accountant.get_epsilon(1e-5))
    # The bound for samples is weak where most are drawn; that without them holds all the same.
    of = [spent(Private(FedAvg(lr=0.5, cohort=m), **noise)) for m in range(1, 8)]
    assert of == sorted(of) and max(of) <= everyone


def test_exchanges_with_one_cohort_are_one_sample():
    """FedNest asks one cohort twice for the dual, and one twice for the model.

    They are counted as one cohort, which bounds the loss from above.
    """
    imbalanced = fl.problems.AUC()
    federation = assemble(imbalanced, CLIENTS, None, "float32")
    method = Private(fl.algorithms.FedNest(lr=0.1, dual_lr=0.1, cohort=2), clip=1, noise=16.0)
    spent = privacy_ledger.ledger(method, federation)(10)["epsilon"]
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    once = dp.GaussianDpEvent(8.0 / math.sqrt(4))
    accountant.compose(dp.SampledWithoutReplacementDpEvent(8, 2, once), 10)
    assert spent == pytest.approx(accountant.get_epsilon(1e-5))


def test_every_exchange_is_counted():
    """FedDR asks everyone once in its opening, then a cohort in every round."""
    sparse = fl.problems.Logistic(l2=0.1, regulariser=fl.problems.L1(0.01))
    federation = assemble(sparse, CLIENTS, None, "float32")
    method = Private(FedDR(step=0.5, lr=0.2, local_steps=2), clip=1, noise=8.0)
    spent = privacy_ledger.ledger(method, federation)
    once = privacy_ledger.ledger(Private(AVERAGE, clip=1, noise=8.0), federation)
    assert spent(0) == once(1) and spent(4)["epsilon"] == pytest.approx(once(5)["epsilon"])


def test_the_loss_is_in_history_and_about():
    result = run(Private(Scaffold(lr=0.5), clip=1, noise=2.0, delta=1e-6), rounds=4, eval_every=2)
    spent = result.history["epsilon"].to_list()
    assert spent[0] == 0 < spent[1] < spent[2]
    assert result.about["privacy"]["delta"] == 1e-6
    assert result.about["privacy"]["kind"].startswith("central")
    assert run(Private(AVERAGE, clip=1, noise=0)).final["epsilon"] == math.inf
    assert "epsilon" not in run(AVERAGE).final


def test_a_sealed_method_has_noise_that_no_seed_repeats():
    method = Unreliable(Private(AVERAGE, clip=1.0, noise=1.0), drop=0.1)
    one, other = sealed(method), sealed(method)
    assert one.inner.secret != other.inner.secret
    assert str(int(one.inner.secret[0])) not in repr(one).replace("1.0", "")
    first, again = run(method), run(method)
    np.testing.assert_array_equal(first.model, again.model)
    assert not np.allclose(run(one).model, run(other).model)


def test_private_refuses_what_it_cannot_promise():
    by_size = fl.problems.Logistic(weights="size")
    with pytest.raises(ParameterError, match="weights = 'equal'"):
        fl.simulate(Private(AVERAGE, clip=1, noise=1), by_size, CLIENTS, rounds=1)

    @algorithm
    class Counts(Algorithm):
        lr: float

        def init_hub(self, fed, key, /):
            return fed.init_model(key)

        def round(self, hub, fed, key, /):
            yield ask(self.count, hub, to=by_weight(key, fed.weights, 2))
            return hub, ()

        def model(self, hub, fed, /):
            return hub

        def count(self, client, model, f, key, /):
            return client, f.size

    with pytest.raises(ProtocolError, match=r"noise to real numbers; reply .* to count is int"):
        run(Private(Counts(0.1), clip=1, noise=1))
    with pytest.raises(ParameterError, match="Private: clip must be a number > 0; got 0"):
        Private(AVERAGE, clip=0, noise=1)
    with pytest.raises(ParameterError, match="inner must be a Algorithm"):
        Private("fedavg", clip=1, noise=1)


# Unreliable


def test_reliable_clients_change_nothing():
    np.testing.assert_array_equal(run(Unreliable(AVERAGE)).model, run(AVERAGE).model)


def test_drop_outs_cost_no_bytes_and_late_replies_do():
    full = run(AVERAGE, rounds=100).final["bytes_up"]
    dropped = run(Unreliable(AVERAGE, drop=0.25), rounds=100).final
    late = run(Unreliable(AVERAGE, late=0.25), rounds=100).final
    assert 0.7 < dropped["bytes_up"] / full < 0.8
    assert late["bytes_up"] == full


@pytest.mark.parametrize("fault", ["drop", "late"])
def test_if_nobody_answers_the_model_stays(fault):
    result = run(Unreliable(Scaffold(lr=0.5), **{fault: 1.0}))
    assert not result.state.hub.model.any() and not result.state.hub.control.any()
    moved = result.state.clients[0].control.any()
    assert moved == (fault == "late")  # the work was done, and the reply was lost


def test_averaging_survives_unreliable_clients():
    away = run(Unreliable(AVERAGE, drop=0.3, late=0.2), rounds=100).model
    np.testing.assert_allclose(away, run(AVERAGE, rounds=100).model, atol=0.2)


# Both


def test_a_sweep_reaches_the_method_inside():
    method = {"m": Unreliable(Private(AVERAGE, clip=1.0, noise=1.0), drop=0.1)}
    over = {"lr": [0.1, 0.2], "noise": [2.0], "drop": [0.3]}
    searching.check_keys(over, method, LOGISTIC)
    setting = searching.grid(over)[1]
    swept, _ = searching.apply(setting, "m", method["m"], LOGISTIC)
    assert (swept.inner.inner.lr, swept.inner.noise, swept.drop) == (0.2, 2.0, 0.3)
    with pytest.raises(ParameterError, match="'lrr' is a field of none"):
        searching.check_keys({"lrr": [1]}, method, LOGISTIC)


def test_methods_with_repeated_clients_and_several_exchanges_can_be_wrapped():
    robust = fl.algorithms.DRFA(lr=0.1, weight_lr=0.1, cohort=3, local_steps=2)
    wrapped = Private(Unreliable(robust, drop=0.2), clip=0.5, noise=1.0)
    assert np.isfinite(run(wrapped, rounds=1).model).all()


def test_what_is_true_of_a_vertical_method_is_true_of_what_wraps_it():
    @algorithm
    class Around(Wrapper):
        inner: Algorithm = param(instance_of(Algorithm), "the method")

        def round(self, hub, fed, key, /):
            return (yield from relay(self.inner.round(hub, fed, key)))

    inner = fl.algorithms.CVFL(fl.compressors.TopK(50), lr=0.1)
    wrapped = Around(inner)
    assert wrapped.tells_labels and wrapped.takes_fusion and wrapped.needs_everyone
    with pytest.raises(ParameterError, match="Compressed is for horizontal methods, and CVFL is a"):
        fl.algorithms.Compressed(inner, fl.compressors.TopK(50))
