"""Compressors: what they keep, what they lose, what they send."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.algorithms import Compressed, FedAvg
from fedloom.exchange.in_process import InProcess
from fedloom.operators.compressors import Identity, LowRank, Natural, RandK, RandomRounding, TopK

V = jnp.asarray(np.random.default_rng(0).normal(size=30).astype(np.float32))
UNBIASED = [Identity(), RandK(25), RandK(25, shared=False), RandomRounding(3), RandomRounding(40)]
UNBIASED += [Natural()]
WIRE = {  # bytes for 30 numbers of 4 bytes
    Identity(): 120,
    RandK(25): 8 * 4,
    RandK(25, shared=False): 8 * 4 + 8,  # and the key
    TopK(25): 8 * (4 + 4),
    RandomRounding(7): 4 + 15,  # the norm, and half a byte each
    RandomRounding(40): 4 + 30,
    Natural(): 30 + 4,  # an exponent each, and the signs
    LowRank(2): (5 + 6) * 2 * 4,
}


def through(q, v, key):
    """What the receiver reads; with a shared key it draws along."""
    return q.restore(q.compress(v, key), v, key if q.shared else None)


@pytest.mark.parametrize("q", UNBIASED, ids=repr)
def test_the_mean_is_the_vector_and_the_second_moment_is_bounded(q):
    keys = jax.random.split(draws.key(1), 4000)
    images = np.asarray(jax.jit(jax.vmap(lambda k: through(q, V, k)))(keys), float)
    spread = images.std(0) / np.sqrt(len(keys))
    assert (np.abs(images.mean(0) - V) <= 5 * spread + 1e-6).all()
    second = (images**2).sum(1).mean() / float(V @ V)
    assert second <= q.omega(V) * 1.03


@pytest.mark.parametrize("c", [TopK(25), LowRank(2)], ids=repr)
def test_biased_ones_contract_as_stated(c):
    keys = jax.random.split(draws.key(2), 200)
    vectors = jax.vmap(lambda k: jax.random.normal(k, (5, 6)))(keys)
    images = jax.vmap(lambda v, k: through(c, v, k))(vectors, keys)
    lost = ((images - vectors) ** 2).sum((1, 2)) / (vectors**2).sum((1, 2))
    assert lost.mean() <= 1 - 1 / c.delta(V)
    assert lost.max() < 1


def test_topk_keeps_the_largest():
    kept = np.flatnonzero(np.asarray(through(TopK(10), V, draws.key(0))))
    assert set(kept) == set(np.argsort(-np.abs(V))[:3].tolist())
    # Of equal ones the first, and never more than K.
    ties = np.array([1.0, -2.0, 2.0, 0.0, -2.0, 3.0, 2.0, 0.0], np.float32)
    np.testing.assert_array_equal(TopK(50).compress(ties, None).places, [1, 2, 4, 5])
    np.testing.assert_array_equal(TopK(25).compress(np.zeros(8), None).places, [0, 1])
    assert len(TopK(50).compress(np.ones(1000), None).places) == 500
    late = np.array([2.0, -2.0, 2.0, 3.0], np.float32)  # no tie takes the place of a larger one
    np.testing.assert_array_equal(TopK(50).compress(late, None).places, [0, 3])


@pytest.mark.parametrize(("q", "size"), WIRE.items(), ids=map(repr, WIRE))
def test_bytes_are_what_is_sent(q, size):
    assert q.wire_bytes(V) == size
    arrays = jax.tree.leaves(q.compress(V, draws.key(0)))
    assert sum(np.asarray(array).nbytes for array in arrays) == size


OMEGA = {  # of 30 numbers, as the papers state it
    Identity(): 1,
    RandK(25): 30 / 8,
    RandomRounding(3): 1 + 30**0.5 / 3,  # few levels: the second bound is the smaller
    RandomRounding(40): 1 + 30 / 40**2,
    Natural(): 9 / 8,
}
DELTA = {TopK(25): 30 / 8, LowRank(2): 5 / 2, LowRank(9): 1}


def test_what_theory_is_told_is_what_the_papers_state():
    assert {q: pytest.approx(q.omega(V)) for q in OMEGA} == OMEGA
    assert {c: pytest.approx(c.delta(V)) for c in DELTA} == DELTA
    assert RandK(25).portion(V) == 32 / 120
    assert TopK(100).portion(V) == 1  # values and places, and still no more than all


def test_powers_of_two_pass_as_they_are_from_the_smallest_to_the_largest(double):
    powers = np.array([-127.0, -126, -1, 0, 1, 126, 127])
    exact = np.concatenate([2.0**powers, -(2.0**powers)])
    np.testing.assert_array_equal(through(Natural(), jnp.asarray(exact), draws.key(0)), exact)
    outside = jnp.asarray([2.0**-128, 2.0**-140, 2.0**128, -(2.0**140)])
    got = through(Natural(), outside, draws.key(0))
    np.testing.assert_array_equal(got, [0, 0, 2.0**127, -(2.0**127)])


def test_a_rank_that_is_high_enough_loses_nothing(double):
    for shape in ((30,), (7,), (1,), (5, 6)):
        v = jnp.asarray(np.random.default_rng(1).normal(size=shape))
        np.testing.assert_allclose(through(LowRank(9), v, draws.key(0)), v, atol=1e-13)


@pytest.mark.parametrize("kind", [RandK, TopK])
def test_shares_are_whole_numbers_from_1_to_100(kind):
    assert kind(1).count(V) == 1 and kind(100).count(V) == 30
    for wrong in (0, 101, True, 2.5):
        with pytest.raises(fl.FedloomError, match="a whole number from 1 to 100"):
            kind(wrong)


def test_levels_are_whole_numbers_from_1_to_127():
    assert RandomRounding(1).levels == 1 and RandomRounding(127).wire_bytes(V) == 34
    for wrong in (0, 128):
        with pytest.raises(fl.FedloomError, match="a whole number from 1 to 127"):
            RandomRounding(wrong)


@pytest.mark.parametrize("levels", [1, 7, 8, 127])
def test_the_largest_level_is_the_norm_with_its_sign(levels, double):
    for alone in ([0, 0, 3.0], [-3.0, 0, 0], [0, -3.0, 0, 0]):
        v = jnp.asarray(alone)
        np.testing.assert_allclose(through(RandomRounding(levels), v, draws.key(0)), v, rtol=1e-15)


@pytest.mark.parametrize("levels", [7, 127])
def test_rounding_never_passes_the_last_level(levels, monkeypatch):
    """Drawn as low as can be, a number a little above the last level would be rounded up."""
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape, dtype: jnp.zeros(shape, dtype))
    sizes = np.random.default_rng(0).normal(size=2000).astype(np.float32)
    vectors = jnp.stack([jnp.zeros(2000), jnp.asarray(sizes)], axis=1)
    images = jax.vmap(lambda v: through(RandomRounding(levels), v, draws.key(0)))(vectors)
    np.testing.assert_allclose(images, vectors, rtol=1e-6)


def test_what_is_not_finite_does_not_pass_for_a_small_number():
    """A run that diverges has to show: infinity became 1, and nan 0.5."""
    got = through(Natural(), jnp.array([np.nan, np.inf, -np.inf, 2.0]), draws.key(0))
    np.testing.assert_array_equal(got, [2.0**127, 2.0**127, -(2.0**127), 2])


@pytest.mark.parametrize("q", [Natural(), RandomRounding(7), RandK(50, shared=False)], ids=repr)
def test_zero_stays_zero(q):
    assert not np.asarray(through(q, jnp.zeros(7), draws.key(0))).any()


def test_any_compressor_wraps_a_horizontal_method_on_both_engines(double):
    rng = np.random.default_rng(5)
    rows = [(rng.normal(size=(9, 16)), rng.integers(0, 2, 9)) for _ in range(3)]
    clients, problem = fl.data.from_arrays(rows), fl.problems.Logistic(l2=0.1)
    plain = FedAvg(lr=0.2, local_steps=2)
    options = {"rounds": 3, "batch_size": None, "precision": "float64"}
    pairs = fl.algorithms.Scaffold(lr=0.2, local_steps=2)  # its replies are two vectors each
    apart = fl.simulate(pairs, problem, clients, **options)
    joint = fl.simulate(Compressed(pairs, Identity()), problem, clients, **options)
    np.testing.assert_array_equal(apart.model, joint.model)
    whole = fl.simulate(plain, problem, clients, **options)
    same = fl.simulate(Compressed(plain, Identity()), problem, clients, **options)
    np.testing.assert_array_equal(whole.model, same.model)
    for q in (RandK(25, shared=False), RandomRounding(7)):
        wrapped = Compressed(plain, q)
        got = fl.simulate(wrapped, problem, clients, **options)
        network = InProcess(wrapped, problem, clients, batch_size=None, precision="float64")
        for _ in range(3):
            network.step()
        np.testing.assert_allclose(got.model, network.hub.model, rtol=1e-12, atol=1e-12)
        like = jax.ShapeDtypeStruct((16,), "float64")
        assert got.final["bytes_up"] == network.bytes_up == 3 * 3 * q.wire_bytes(like)
        assert got.final["bytes_down"] == whole.final["bytes_down"]
        assert not np.array_equal(got.model, whole.model)


@pytest.mark.parametrize("q", [RandomRounding(7), LowRank(2)], ids=repr)
def test_a_model_of_several_layers_is_compressed_as_one_vector(q, double):
    rng = np.random.default_rng(5)
    rows = [(rng.normal(size=(9, 6)), rng.integers(0, 3, 9)) for _ in range(2)]
    clients = fl.data.from_arrays(rows)
    problem = fl.problems.Supervised(fl.models.MLP((5,)))
    method = Compressed(FedAvg(lr=0.1), q)
    got = fl.simulate(method, problem, clients, rounds=1, precision="float64")
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(got.model)]
    assert len(sizes) == 4 and sum(sizes) == 53
    whole, *layers = (q.wire_bytes(jax.ShapeDtypeStruct((n,), "float64")) for n in (53, *sizes))
    assert got.final["bytes_up"] == 2 * whole != 2 * sum(layers)


def test_a_shared_seed_needs_someone_to_share_it():
    with pytest.raises(fl.FedloomError, match="shared=False"):
        Compressed(FedAvg(lr=0.1), RandK(10))
