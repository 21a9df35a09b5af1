"""Each rule against a computation of its own, and what a malicious reply can do to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from fedloom.errors import ParameterError
from fedloom.operators.aggregators import (
    CentredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    NormBound,
    TrimmedMean,
)

RNG = np.random.default_rng(3)
VALUES = RNG.normal(1, 1, (10, 4))
EQUAL, ALL = np.ones(10), np.ones(10, bool)
WEIGHTS = RNG.uniform(0.5, 2, 10)
RULES = {
    "median": Median(),
    "trimmed mean": TrimmedMean(fraction=0.25),
    "krum": Krum(malicious=2),
    "multi-krum": MultiKrum(malicious=2),
    "geometric median": GeometricMedian(),
    "centred clipping": CentredClipping(radius=1.0),
    "norm bound": NormBound(bound=2.0),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
pytestmark = pytest.mark.usefixtures("double")


def repeated(values, counts):
    """Whole weights are as many equal replies."""
    return np.repeat(values, counts, axis=0)


@pytest.mark.parametrize("m", [9, 10])
def test_the_median_is_that_of_each_coordinate(m):
    values, weights = VALUES[:m], np.full(m, 1 / m)
    for alike in (weights, weights.astype(np.float32), np.ones(m)):
        np.testing.assert_allclose(Median()(values, alike, ALL[:m]), np.median(values, 0))


def test_the_weighted_median_counts_a_reply_as_often_as_its_weight_says():
    counts = RNG.integers(1, 6, 10)
    expected = np.median(repeated(VALUES, counts), 0)
    np.testing.assert_allclose(Median()(VALUES, counts / 7, ALL), expected)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_trimmed_mean_without_the_ends(share):
    expected = stats.trim_mean(VALUES, share + 1e-9, axis=0)
    np.testing.assert_allclose(TrimmedMean(share)(VALUES, EQUAL, ALL), expected)
    counts = 10 * RNG.integers(1, 4, 10)
    expected = stats.trim_mean(repeated(VALUES, counts), share + 1e-9, axis=0)
    np.testing.assert_allclose(TrimmedMean(share)(VALUES, counts, ALL), expected)


def test_a_reply_on_the_border_counts_with_a_part():
    """Of five equal weights and a share of 0.3, half of the second and of the fourth is inside."""
    values = np.array([[1e9], [2.0], [3.0], [7.0], [-1e9]])
    expected = (0.5 * 2 + 3 + 0.5 * 7) / 2
    np.testing.assert_allclose(TrimmedMean(0.3)(values, np.ones(5), ALL[:5]), expected)


def krum_order(values, malicious):
    """Replies from the most to the least trusted, straight from the paper's definition."""
    scores = []
    for i, value in enumerate(values):
        distances = sorted(np.sum((value - other) ** 2) for other in np.delete(values, i, 0))
        scores.append(sum(distances[: len(values) - malicious - 2]))
    return np.argsort(scores)


@pytest.mark.parametrize("malicious", [0, 2, 3])
def test_krum_takes_the_reply_with_the_closest_neighbours(malicious):
    order = krum_order(VALUES, malicious)
    np.testing.assert_array_equal(Krum(malicious)(VALUES, WEIGHTS, ALL), VALUES[order[0]])
    kept = order[:4]
    several = MultiKrum(malicious, keep=4)(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(several, np.average(VALUES[kept], 0, WEIGHTS[kept]))
    kept = order[: 10 - malicious]
    most = MultiKrum(malicious)(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(most, np.average(VALUES[kept], 0, WEIGHTS[kept]))


def test_the_geometric_median_has_the_least_sum_of_distances():
    def total(point):
        return WEIGHTS @ np.linalg.norm(VALUES - point, axis=1)

    best = optimize.minimize(total, VALUES.mean(0), tol=1e-12).x
    found = GeometricMedian(iterations=500)(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(found, best, atol=1e-5)
    roughly = GeometricMedian()(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(roughly, best, atol=0.02)


def test_smoothing_makes_a_geometric_median_a_mean():
    """If all replies are nearer than `smoothing`, they pull alike."""
    expected = np.average(VALUES, 0, WEIGHTS)
    found = GeometricMedian(smoothing=100.0)(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(found, expected)


def test_centred_clipping_step_by_step_and_its_limit():
    centre = np.zeros(4)
    for _ in range(3):
        gaps = VALUES - centre
        lengths = np.linalg.norm(gaps, axis=1)
        steps = [gap if size <= 1 else gap / size for gap, size in zip(gaps, lengths, strict=True)]
        centre = centre + np.average(steps, 0, WEIGHTS)
    found = CentredClipping(radius=1.0, iterations=3)(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(found, centre)

    def huber(point):
        size = np.linalg.norm(VALUES - point, axis=1)
        return WEIGHTS @ np.where(size <= 1, size**2 / 2, size - 0.5)

    limit = optimize.minimize(huber, VALUES.mean(0), tol=1e-12).x
    found = CentredClipping(radius=1.0, iterations=500)(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(found, limit, atol=1e-5)


def test_replies_are_shortened_to_the_bound():
    sizes = np.linalg.norm(VALUES, axis=1)
    assert (sizes > 2).any() and (sizes < 2).any()
    short = [v if size < 2 else 2 * v / size for v, size in zip(VALUES, sizes, strict=True)]
    expected = np.average(short, 0, WEIGHTS)
    np.testing.assert_allclose(NormBound(2.0)(VALUES, WEIGHTS, ALL), expected)


@every_rule
def test_who_is_absent_leaves_no_trace(rule):
    present = np.arange(10) % 4 != 1  # seven are there
    hostile = np.where(present[:, None], VALUES, np.nan)
    found = rule(hostile, WEIGHTS, present)
    few = rule(VALUES[present], WEIGHTS[present], np.ones(7, bool))
    np.testing.assert_allclose(found, few, rtol=1e-12)
    np.testing.assert_allclose(rule(hostile, WEIGHTS, ALL), few, rtol=1e-12)  # not finite
    np.testing.assert_allclose(rule(VALUES, WEIGHTS * present, ALL), few, rtol=1e-12)


@every_rule
def test_of_nobody_the_aggregate_is_zero_and_of_one_its_reply(rule):
    np.testing.assert_array_equal(rule(VALUES, WEIGHTS, ~ALL), np.zeros(4))
    alone = VALUES / 10  # inside all bounds
    np.testing.assert_allclose(rule(alone, WEIGHTS, np.arange(10) == 6), alone[6])


@every_rule
def test_alike_replies_are_their_own_aggregate(rule):
    np.testing.assert_allclose(rule(np.full((10, 4), 0.3), WEIGHTS, ALL), np.full(4, 0.3))


@every_rule
def test_the_order_and_the_scale_of_weights_do_not_matter(rule):
    order = RNG.permutation(10)
    found = rule(VALUES, WEIGHTS, ALL)
    np.testing.assert_allclose(rule(VALUES[order], WEIGHTS[order], ALL), found, rtol=1e-12)
    np.testing.assert_allclose(rule(VALUES, 100 * WEIGHTS, ALL), found, rtol=1e-12)


@every_rule
@pytest.mark.parametrize("lie", [1e3, -1e3, 1e30, 1e300, np.inf, np.nan])
def test_two_of_ten_move_the_aggregate_by_a_bounded_amount(rule, lie):
    """However large the lie, the aggregate stays among the honest replies, or in the bounds."""
    false = VALUES.copy()
    false[[0, 7]] = lie
    moved = rule(false, EQUAL, ALL) - rule(VALUES, EQUAL, ALL)
    assert np.linalg.norm(moved) < 2.5
    assert np.abs(np.nan_to_num(false.mean(0), nan=np.inf)).max() > 100


@every_rule
def test_single_precision_keeps_huge_replies_out(rule):
    with jax.enable_x64(False):
        false = VALUES.astype(np.float32)
        false[[0, 7]] = 1e30
        found = rule(jnp.asarray(false), np.full(10, 0.1, np.float32), ALL)
    assert found.dtype == jnp.float32
    assert np.linalg.norm(found - np.asarray(rule(VALUES, EQUAL, ALL))) < 2.5


@every_rule
def test_under_jit_and_vmap(rule):
    many = RNG.normal(size=(3, 10, 4))
    present = RNG.uniform(size=(3, 10)) < 0.9
    found = jax.jit(jax.vmap(rule, (0, None, 0)))(many, WEIGHTS, present)
    for i in range(3):
        np.testing.assert_allclose(found[i], rule(many[i], WEIGHTS, present[i]), rtol=1e-10)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match=r"Krum: malicious must .* at most 3; got 4. Lower"):
        Krum(malicious=4).check(10)
    Krum(malicious=3).check(9)
    with pytest.raises(ParameterError, match=r"MultiKrum: malicious .* at most none; got 0"):
        MultiKrum(malicious=0).check(2)
    with pytest.raises(ParameterError, match=r"keep must be at most .* 10 - 2; got 9"):
        MultiKrum(malicious=2, keep=9)(VALUES, EQUAL, ALL)
    with pytest.raises(
        ParameterError, match=r"fraction must be a number >= 0 and < 0\.5; got 0\.5"
    ):
        TrimmedMean(fraction=0.5)
    with pytest.raises(ParameterError, match="CentredClipping: radius must be a number > 0"):
        CentredClipping(radius=0)
