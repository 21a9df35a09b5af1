"""Draws are uniform, distinct, and the same wherever they are made."""

import collections
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom import draws

SAMPLES = 60_000
IMPROBABLE = 1e-5  # a p-value that a sound generator meets once in a hundred thousand seeds


def p_value(counts, expected):
    """Chi-square: how likely counts so uneven are, if the draws are uniform."""
    chi = ((np.asarray(counts) - expected) ** 2 / expected).sum()
    return scipy.stats.chi2.sf(chi, len(counts) - 1)


distinct = jax.jit(draws.distinct, static_argnames="count")


@given(size=st.integers(1, 5000), count=st.sampled_from([1, 7, 64]), seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_distinct_draws_are_distinct_and_in_range(size, count, seed):
    drawn = np.asarray(distinct(draws.key(seed), draws.domain(size), count))
    assert drawn.min() >= 0 and drawn.max() < size
    assert len(np.unique(drawn)) == min(size, count)


@pytest.mark.parametrize("size,count", [(2, 2), (3, 3), (4, 4), (5, 3), (7, 2), (20, 2), (50, 2)])
def test_every_ordered_choice_is_equally_likely(size, count):
    many = jax.vmap(lambda key: draws.distinct(key, draws.domain(size), count))
    seen = collections.Counter(
        map(tuple, np.asarray(many(jax.random.split(draws.key(1), SAMPLES))).tolist())
    )
    choices = list(itertools.permutations(range(size), count))
    assert p_value([seen[c] for c in choices], SAMPLES / len(choices)) > IMPROBABLE


@pytest.mark.parametrize("size", [97, 1628, 10_000])
def test_every_row_of_a_large_client_is_equally_likely(size):
    many = jax.vmap(lambda key: draws.distinct(key, draws.domain(size), 40))
    drawn = np.asarray(many(jax.random.split(draws.key(2), SAMPLES // 2)))
    counts = np.bincount(drawn.ravel(), minlength=size)
    assert p_value(counts, drawn.size / size) > IMPROBABLE


def test_clients_of_many_sizes_draw_side_by_side():
    sizes = np.array([1, 5, 64, 1000])
    domains = draws.domain(sizes)
    keys = jax.random.split(draws.key(0), 4)
    together = jax.vmap(lambda key, *d: draws.distinct(key, draws.Domain(*d), 8))(keys, *domains)
    for key, size, row in zip(keys, sizes, np.asarray(together), strict=True):
        alone = np.asarray(draws.distinct(key, draws.domain(int(size)), 8))
        np.testing.assert_array_equal(row, alone)


@pytest.mark.parametrize("seed", range(4))
def test_words_are_uniform_and_keys_are_unlike(seed):
    keys = jax.random.split(draws.key(seed), 500)
    rows = np.asarray(jax.vmap(lambda k: jax.random.uniform(k, (400,)))(keys))
    assert scipy.stats.kstest(rows.ravel(), "uniform").pvalue > IMPROBABLE
    normals = np.asarray(jax.vmap(lambda k: jax.random.normal(k, (400,)))(keys))
    assert scipy.stats.kstest(normals.ravel(), "norm").pvalue > IMPROBABLE
    # 124750 pairs of independent rows: the largest correlation stays near sqrt(2 ln pairs / 400).
    correlation = np.corrcoef(rows) - np.eye(500)
    assert np.abs(correlation).max() < 1.3 * math.sqrt(2 * math.log(124_750) / 400)


def test_each_bit_of_a_seed_and_of_a_path_changes_about_half_of_the_bits():
    def bits(key):
        return np.unpackbits(np.asarray(jax.random.bits(key, (64,))).view(np.uint8))

    base = draws.key(12345)
    others = [draws.key(12345 ^ (1 << b)) for b in range(32)]
    others += [draws.fold(base, 1 << b) for b in range(31)] + [
        draws.fold(base, 1, 1 << b) for b in range(31)
    ]
    for other in others:
        assert 0.42 < np.mean(bits(base) != bits(other)) < 0.58


def test_paths_do_not_meet():
    paths = itertools.product(range(20), range(4), range(50))
    table = jnp.array(list(paths))
    keys = jax.vmap(lambda p: draws.fold(draws.key(0), p[0], p[1], p[2]))(table)
    assert len(np.unique(np.asarray(jax.random.key_data(keys)), axis=0)) == len(table)


def test_nth_is_the_entry_of_split():
    key = draws.key(3)
    split = jax.random.key_data(jax.random.split(key, 5))
    for i in range(5):
        np.testing.assert_array_equal(jax.random.key_data(draws.nth(key, i)), split[i])


def test_large_seeds_differ(double):
    words = [
        tuple(np.asarray(jax.random.key_data(draws.key(s)))) for s in (1, 1 + 2**32, 1 + 2**40)
    ]
    assert len(set(words)) == 3


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_of_every_width_are_uniform(dtype, double):
    words = np.asarray(jax.random.bits(draws.key(9), (20_000,), dtype))
    assert words.dtype == dtype
    share = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(share - 0.5) < 5 * 0.5 / math.sqrt(words.nbytes * 8)


def test_a_first_state_shares_no_key_with_a_round():
    root, rounds = draws.key(0), jnp.arange(1000)
    pairs = (
        (draws.first_hub_key(root), jax.vmap(lambda r: draws.hub_key(root, r))(rounds)),
        (
            draws.first_client_key(root, 3),
            jax.vmap(lambda r: draws.client_key(root, r, 1, 3))(rounds),
        ),
    )
    for first, others in pairs:
        same = jax.random.key_data(others) == jax.random.key_data(first)
        assert not same.all(-1).any()


def test_weighted_draws_are_in_proportion_on_every_level_of_the_tree():
    """Three levels of branches, a part of the weights zero; of few weights as JAX draws them."""
    n, rng = 40_000, np.random.default_rng(3)
    weights = rng.exponential(size=n) * (np.arange(n) % 7 > 0) * (np.arange(n) // 1000 % 3 > 0)
    ids = np.asarray(draws.weighted(draws.key(5), jnp.asarray(weights), SAMPLES))
    assert ids.min() >= 0 and ids.max() < n and (weights[ids] > 0).all()
    for groups in (np.arange(n) // 5000, np.arange(n) // 7 % 64):  # far apart, and side by side
        expected = np.bincount(groups, weights) / weights.sum() * SAMPLES
        found = np.bincount(groups[ids], minlength=len(expected))
        assert scipy.stats.chisquare(found, expected).pvalue > IMPROBABLE
    few = jnp.asarray(rng.dirichlet(np.ones(100)))
    drawn = draws.weighted(draws.key(6), few, 50)
    np.testing.assert_array_equal(drawn, jax.random.choice(draws.key(6), 100, (50,), p=few))
