"""Convolutions by matrix products, and pooling, against JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.models import layers


@pytest.mark.parametrize("size,padding", [(1, 0), (3, 1), (5, 0), (5, 2)])
def test_convolution_is_xlas(size, padding, double):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2, 7, 8, 3)), rng.normal(size=(size * size * 3, 4))
    expected = jax.lax.conv_general_dilated(
        jnp.asarray(x), weights.reshape(size, size, 3, 4), (1, 1), [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    np.testing.assert_allclose(layers.conv(weights, x, size, padding), expected, atol=1e-12)


@pytest.mark.parametrize("height,width", [(4, 6), (5, 7)])
def test_pooling_and_its_gradient_are_xlas_where_there_are_no_ties(height, width, double):
    x = jnp.asarray(np.random.default_rng(1).permutation(2 * height * width * 3))
    x = x.reshape(2, height, width, 3).astype(float)

    def by_xla(x):
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    np.testing.assert_array_equal(layers.max_pool(x), by_xla(x))
    weights = jnp.arange(layers.max_pool(x).size, dtype=float).reshape(layers.max_pool(x).shape)
    ours = jax.grad(lambda x: (weights * layers.max_pool(x)).sum())(x)
    theirs = jax.grad(lambda x: (weights * by_xla(x)).sum())(x)
    np.testing.assert_array_equal(ours, theirs)


def test_ties_give_the_gradient_to_the_first(double):
    grad = jax.grad(lambda x: layers.max_pool(x).sum())(jnp.ones((1, 2, 2, 1)))
    np.testing.assert_array_equal(grad[0, :, :, 0], [[1, 0], [0, 0]])
