"""Quantisers against brute force, finite differences and what the paper says of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.layout import layout_of
from fedloom.operators import quantisers
from fedloom.rows import Spec

CENTRES = np.array([-0.9, -0.2, 0.1, 0.8])


def weights(count=40, seed=0):
    return np.random.default_rng(seed).normal(0, 0.6, count)


@pytest.mark.parametrize("levels", [2, 4, 16, 256])
def test_the_search_finds_the_nearest_centre(levels, double):
    centres = np.sort(np.random.default_rng(levels).normal(size=levels))
    x = weights(500)
    expected = np.abs(x[:, None] - centres).argmin(1)
    np.testing.assert_array_equal(quantisers.cells(x, jnp.asarray(centres)), expected)
    sums = quantisers.cell_sums(jnp.asarray(x), jnp.asarray(expected), levels)
    np.testing.assert_allclose(sums, np.bincount(expected, x, levels), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.floats(-2, 2), st.floats(0.01, 1.5))
def test_the_prox_in_x_is_the_minimiser(y, step):
    """By brute force over a fine grid, with every centre and the kinks among its points."""
    grid = np.concatenate([np.linspace(-3, 3, 60_001), CENTRES, [y, y - step / 2, y + step / 2]])
    penalty = 0.5 * np.abs(grid[:, None] - CENTRES).min(1)
    values = penalty + (grid - y) ** 2 / (2 * step)
    with jax.enable_x64(True):
        got = float(quantisers.prox_weights(jnp.array([y]), jnp.asarray(CENTRES), step)[0])
    value = 0.5 * np.abs(got - CENTRES).min() + (got - y) ** 2 / (2 * step)
    assert value <= values.min() + 1e-12


def test_the_centre_update_lowers_the_distance_and_the_printed_sign_does_not(double):
    rng = np.random.default_rng(1)
    x = jnp.asarray(np.concatenate([rng.gamma(2, 0.3, 400), -rng.gamma(2, 0.1, 400)]))

    @jax.jit
    def run(sign):
        def update(centres, _):
            centres = quantisers.prox_centres(centres, centres, x, 1e-4, sign=sign, per_cell=False)
            return centres, quantisers.distance(x, centres)

        first = quantisers.first_centres(x, 4)
        centres, values = jax.lax.scan(update, first, length=3000)
        return jnp.concatenate([quantisers.distance(x, first)[None], values]), centres

    corrected, centres = run(1.0)
    assert (np.diff(corrected)[:100] < 0).all()
    assert corrected[-1] < 0.8 * corrected[0]
    assert run(-1.0)[0][-1] > 1.2 * corrected[0]
    cell = quantisers.cells(x, centres)
    medians = [np.median(x[cell == k]) for k in range(4)]
    np.testing.assert_allclose(centres, medians, atol=0.02)  # "pulls towards the median"


def test_the_centre_update_is_the_exact_prox_of_one_weight(double):
    """One weight at 0.9 above its centre 0.5: the prox of step R at 0.5 goes up by step / 2."""
    got = quantisers.prox_centres(
        jnp.array([0.5]), jnp.array([0.5]), jnp.array([0.9]), 0.03, sign=1.0, per_cell=False
    )
    grid = np.linspace(0, 1, 100_001)
    exact = grid[(0.5 * np.abs(grid - 0.9) + (grid - 0.5) ** 2 / 0.06).argmin()]
    np.testing.assert_allclose(got, exact, atol=1e-5)
    np.testing.assert_allclose(got, 0.515)


def test_the_distance_is_half_the_sum_of_distances(double):
    x = weights()
    expected = 0.5 * np.abs(x[:, None] - CENTRES).min(1).sum()
    np.testing.assert_allclose(quantisers.distance(jnp.asarray(x), CENTRES), expected, rtol=1e-14)


def test_the_centre_update_may_divide_by_the_size_of_a_cell(double):
    """Three weights above the first centre, one at it, none near the last: 3/4 of a step, and 0."""
    x, c = jnp.array([0.0, 0.1, 0.2, 0.3, 1.1]), jnp.array([0.0, 1.0, 9.0])
    step = {"step": 0.08, "sign": 1.0}
    got = quantisers.prox_centres(c, c, x, per_cell=True, **step)
    np.testing.assert_allclose(got, [0.04 * 3 / 4, 1 + 0.04, 9.0], rtol=1e-14)
    got = quantisers.prox_centres(c, c, x, per_cell=False, **step)
    np.testing.assert_allclose(got, [0.04 * 3, 1 + 0.04, 9.0], rtol=1e-14)


def test_a_model_is_quantised_layer_by_layer(double):
    """Two layers with a free weight before, between and after them."""
    q = quantisers.Quantiser(((1, 3), (4, 6)), 2)
    x = jnp.array([5.0, 0.2, 0.9, 6.0, -1.8, -0.7, 7.0])
    c = jnp.array([[0.0, 1.0], [-2.0, -1.0]])
    np.testing.assert_array_equal(q.hard(x, c), [5, 0, 1, 6, -2, -1, 7])
    np.testing.assert_array_equal(q.apply(x, c), q.hard(x, c))
    smooth = 1 / (1 + np.exp(-3 * np.array([0.2 - 0.5, 0.9 - 0.5, -1.8 + 1.5, -0.7 + 1.5])))
    expected = [5, smooth[0], smooth[1], 6, -2 + smooth[2], -2 + smooth[3], 7]
    np.testing.assert_allclose(q._replace(sharpness=3.0).apply(x, c), expected, rtol=1e-14)
    np.testing.assert_allclose(q.distance(x, c), 0.5 * (0.2 + 0.1 + 0.2 + 0.3), rtol=1e-14)
    np.testing.assert_allclose(
        q.prox_weights(x, c, 0.1), [5, 0.15, 0.95, 6, -1.85, -0.75, 7], rtol=1e-14
    )
    moved = c + jnp.array([[0.5, 0.25], [0.125, 0.0]])
    np.testing.assert_array_equal(q.follow(x, c, moved), [5, 0.5, 1.25, 6, -1.875, -1, 7])
    other = jnp.arange(7.0)
    np.testing.assert_array_equal(q.put(other, x), [0, 0.2, 0.9, 3, -1.8, -0.7, 6])
    firsts = q.first_centres(jnp.array([9.0, -1.0, 3.0, 9.0, -2.0, -4.0, 9.0]))
    np.testing.assert_array_equal(firsts, [[-1, 3], [-3, 0]])


def test_soft_tends_to_hard_as_it_sharpens(double):
    x, c = jnp.asarray(weights()), jnp.asarray(CENTRES)
    gaps = [float(jnp.abs(quantisers.soft(x, c, p) - quantisers.hard(x, c)).mean())
            for p in (10.0, 100.0, 1000.0, 1e5)]  # fmt: skip
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-6


def test_gradients_by_the_centres_are_sums_over_cells(double):
    """Of the hard quantiser; and they are what finite differences of a sharp soft one give."""
    x = jnp.asarray(weights())
    middle = (CENTRES[1:] + CENTRES[:-1]) / 2
    x = x[np.abs(np.asarray(x)[:, None] - middle).min(1) > 0.02]  # away from the jumps
    g = jnp.asarray(np.random.default_rng(2).normal(size=len(x)))
    of = lambda quantise: lambda c: (g * quantise(x, c)).sum()  # noqa: E731
    hard = jax.grad(of(quantisers.hard))(jnp.asarray(CENTRES))
    cell = np.asarray(quantisers.cells(x, jnp.asarray(CENTRES)))
    np.testing.assert_allclose(hard, [g[cell == k].sum() for k in range(4)], atol=1e-12)
    soft = of(lambda x, c: quantisers.soft(x, c, 2000.0))
    e = 1e-6
    differences = [
        (soft(jnp.asarray(CENTRES + e * unit)) - soft(jnp.asarray(CENTRES - e * unit))) / (2 * e)
        for unit in np.eye(4)
    ]
    np.testing.assert_allclose(hard, differences, atol=1e-6)
    np.testing.assert_array_equal(jax.grad(lambda x: quantisers.hard(x, CENTRES).sum())(x), 0)


def test_one_bit_is_nearest_and_not_by_sign():
    """With centres -0.1 and 0.9, the weight 0.2 is nearest to the negative one (G10)."""
    np.testing.assert_allclose(
        quantisers.hard(jnp.array([0.2, 0.5, -0.3]), jnp.array([-0.1, 0.9])), [-0.1, 0.9, -0.1]
    )


def test_first_centres(double):
    x = jnp.array([-0.4, -0.2, 0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantisers.first_centres(x, 2), [-0.3, 0.5])
    np.testing.assert_allclose(quantisers.first_centres(x, 3), [-0.4, 0.25, 0.9])
    np.testing.assert_allclose(quantisers.first_centres(x, 4), np.linspace(-0.4, 0.9, 4))
    np.testing.assert_allclose(quantisers.first_centres(jnp.array([0.5, 0.7]), 2), [0, 0.6])
    np.testing.assert_allclose(quantisers.first_centres(jnp.array([-0.5, 0, 0.7]), 2), [-0.5, 0.35])


@pytest.mark.parametrize(("levels", "multiples"), [(4, [-2, -1, 0, 1]), (8, range(-4, 4))])
def test_the_first_step_of_lsq_is_twice_the_mean_size_over_the_root_of_the_highest_level(
    levels, multiples, double
):
    """Of each layer by itself; weights of a layer of zeros count as 0.01 in size."""
    q = quantisers.Quantiser(((0, 4), (4, 6), (6, 9)), levels, None, "lsq")
    firsts = q.first_centres(jnp.array([0.1, -0.2, 0.4, -0.5, 3.0, -1.0, 0.0, 0.0, 0.0]))
    steps = 2 * np.array([0.3, 2.0, 0.01]) / np.sqrt(max(multiples))
    np.testing.assert_allclose(firsts, np.outer(steps, multiples), rtol=1e-14)
    np.testing.assert_allclose(q.steps(firsts), steps, rtol=1e-14)


def test_first_last_and_biases_stay_at_full_precision():
    layout = layout_of(
        lambda: fl.models.MLP((5, 4)).init(jax.random.key(0), Spec((3,), 2, "float32"))
    )
    # bias 5, weights 3 x 5, bias 4, weights 5 x 4, bias 2, weights 4 x 2
    assert quantisers.layers_to_quantise(layout, (0, -1)) == ((24, 44),)
    assert quantisers.layers_to_quantise(layout, ()) == ((5, 20), (24, 44), (46, 54))
    assert quantisers.layers_to_quantise(layout, (-3, 2)) == ((24, 44),)
    for beyond in (3, -4):  # which counted on from the other end
        with pytest.raises(fl.FedloomError, match=f"keep must number .* -3 to 2 .* got {beyond}"):
            quantisers.layers_to_quantise(layout, (0, beyond))
