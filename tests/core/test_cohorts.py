"""Sampling rules: who takes part, how often, and what an average over them means."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom import cohorts, draws
from fedloom.errors import ParameterError, ProtocolError
from fedloom.protocol import Cohort, Replies
from fedloom.rounds import mapping

KEYS = jax.random.split(draws.key(4), 20_000)


def test_uniform_takes_every_client_alike_and_none_twice():
    ids = np.asarray(jax.vmap(lambda k: cohorts.uniform(k, 7, 3).ids)(KEYS))
    assert all(len(set(row)) == 3 for row in ids[:500].tolist())
    share = np.bincount(ids.ravel(), minlength=7) / len(ids)
    np.testing.assert_allclose(share, 3 / 7, atol=0.02)


def test_uniform_of_all_is_everyone():
    cohort = cohorts.uniform(draws.key(0), 5, 5)
    np.testing.assert_array_equal(cohort.ids, np.arange(5))


def test_uniform_refuses_more_than_there_are():
    with pytest.raises(ParameterError, match="from 1 to the number of clients, 5; got 6"):
        cohorts.uniform(draws.key(0), 5, 6)


def test_drawing_by_weight_is_unbiased_for_the_weighted_sum():
    """ALGORITHMS 0.2: with replacement 1.852 against the target 1.85; without it is 2.36."""
    weights, values = np.array([0.7, 0.1, 0.15, 0.05]), np.array([1.0, 2.0, 4.0, 7.0])
    ids = np.asarray(jax.vmap(lambda k: cohorts.by_weight(k, weights, 2).ids)(KEYS))
    assert abs(values[ids].mean() - weights @ values) < 0.03
    assert (ids[:, 0] == ids[:, 1]).mean() > 0.4  # repeats occur, as they must


def test_bernoulli_joins_each_client_with_its_own_probability():
    probabilities = np.array([0.1, 0.5, 1.0, 0.0])
    present = np.asarray(jax.vmap(lambda k: cohorts.bernoulli(k, probabilities, 4).present)(KEYS))
    np.testing.assert_allclose(present.mean(0), probabilities, atol=0.02)


def replies(present):
    value = {
        "a": np.array([[1, 2], [3, 4], [np.nan, np.nan]], np.float32),
        "b": np.array([1, 2, np.inf], np.float32),
    }
    return Replies(value, Cohort(np.array([2, 0, 1]), np.array(present)))


def test_an_estimate_is_unbiased_over_all_cohorts_and_losses_where_an_average_is_not(double):
    weights, values = np.array([0.7, 0.1, 0.15, 0.05]), np.array([1.0, 2.0, 4.0, 7.0])
    target = weights @ values

    def over_all(way, asked, arrived):
        """The mean over all draws of `asked` clients of whom `arrived` answer."""
        means = []
        for ids in itertools.permutations(range(4), asked):
            cohort = Cohort(np.array(ids), np.arange(asked) < arrived)
            means.append(getattr(Replies(values[list(ids)], cohort), way)(weights))
        return np.mean(means)

    for asked, arrived in ((1, 1), (2, 2), (3, 2), (4, 1), (4, 4)):
        np.testing.assert_allclose(over_all("estimate", asked, arrived), target, rtol=1e-6)
    np.testing.assert_allclose(over_all("average", 1, 1), values.mean(), rtol=1e-6)  # no weights
    assert abs(over_all("average", 2, 2) - target) > 0.2


def test_an_estimate_of_nobody_is_zero_and_cohorts_by_weight_have_none():
    nobody = Replies(np.full(3, np.nan), Cohort(np.arange(3), np.zeros(3, bool)))
    assert nobody.estimate(np.ones(3)) == 0 and not nobody.cohort.any()
    drawn = Replies(np.ones(2), cohorts.by_weight(draws.key(0), np.ones(3), 2))
    with pytest.raises(ProtocolError, match="drawn by weight, and its plain mean is unbiased"):
        drawn.estimate(np.ones(3))


def test_replies_weigh_what_arrived_and_cut_out_the_rest():
    some = replies([True, True, False])
    np.testing.assert_allclose(some.mean()["a"], [2, 3])
    np.testing.assert_allclose(some.sum()["b"], 3)
    weights = np.array([1.0, 5.0, 3.0])
    np.testing.assert_allclose(some.average(weights)["b"], (3 * 1 + 1 * 2) / 4)
    np.testing.assert_allclose(some.sum(weights)["b"], 3 * 1 + 1 * 2)
    np.testing.assert_allclose(some.scatter(4)["b"], [2, 0, 1, 0])


def test_nothing_arrived_gives_zeros():
    none = replies([False, False, False])
    np.testing.assert_array_equal(none.mean()["a"], [0, 0])
    np.testing.assert_array_equal(none.average(np.ones(3))["b"], 0)


def test_a_client_that_is_drawn_twice_gets_one_message():
    cohort = Cohort(np.array([4, 1, 4, 4]), np.array([True, True, True, False]), repeats=True)
    assert int(cohort.messages()) == 2


def test_those_of_a_group_are_found_in_a_cohort_that_is_drawn():
    """The group is of clients 1, 3 and 4, in these places 0, 1 and 2."""
    group = SimpleNamespace(members=(1, 3, 4), size=3)
    drawn = Cohort(jnp.array([4, 0, 3]), jnp.array([True, True, True]))
    slots = mapping._slots(drawn, group, 5)
    np.testing.assert_array_equal(slots.present, [True, True, False])
    np.testing.assert_array_equal(slots.places[:2], [0, 2])
    np.testing.assert_array_equal(slots.clients[:2], [2, 1])
