"""The kernels for a GPU, interpreted: they compute what the layers do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.models import gpu_convolutions, layers
from fedloom.models.gpu_convolutions import Geometry

CLIENTS = 2


def arrays(g: Geometry, dtype: str = "float32") -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weights, biases and images of some clients."""
    rng = np.random.default_rng(0)
    shapes = [
        (CLIENTS, g.entries, g.outputs),
        (CLIENTS, g.outputs),
        (CLIENTS, g.rows, g.height, g.width, g.inputs),
    ]
    weights, bias, x = (jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes)
    return weights, bias, x


def plain(g: Geometry, weights: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
    """By matrix products of patches."""
    if g.window == 1:
        return layers.conv(weights, x, g.size, g.padding, g.stride)
    return layers.conv_pool({"weights": weights, "bias": bias}, x, g.size, g.padding)


def by_kernels(g: Geometry, weights: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
    """By the kernels."""
    if g.window == 1:
        return gpu_convolutions.conv(g, weights, x)
    return gpu_convolutions.conv_pool(g, weights, bias, x)


def with_gradients(function, g: Geometry, *given: jax.Array) -> tuple[jax.Array, ...]:
    """The results at all clients, and the gradients of a weighted sum of them."""

    def of_client(*own: jax.Array) -> tuple[jax.Array, ...]:
        out, back = jax.vjp(lambda *inner: function(g, *inner), *own)
        weights = jnp.cos(jnp.arange(out.size, dtype=jnp.float32)).astype(out.dtype)
        return out, *back(weights.reshape(out.shape))

    return jax.jit(jax.vmap(of_client))(*given)


@pytest.mark.parametrize(
    "g",
    [
        Geometry(3, 12, 12, 1, 16, 3, 1, 1, 2),
        Geometry(2, 8, 8, 5, 20, 3, 1, 1, 2),
        Geometry(2, 13, 15, 3, 6, 5, 0, 1, 2),
        Geometry(2, 9, 8, 8, 70, 3, 1, 2, 1),
        Geometry(1, 9, 9, 70, 3, 1, 0, 2, 1),
    ],
    ids=["one channel", "several blocks", "odd sides", "stride", "one pixel"],
)
def test_kernels_compute_what_the_layers_do(g: Geometry) -> None:
    given = arrays(g)
    for ours, theirs in zip(
        with_gradients(by_kernels, g, *given), with_gradients(plain, g, *given), strict=True
    ):
        scale = float(jnp.abs(theirs).max()) + 1e-6
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=2e-6)


def test_in_half_precision_sums_are_taken_in_single() -> None:
    g = Geometry(2, 8, 8, 16, 16, 3, 1, 1, 2)
    given = arrays(g, "bfloat16")
    exact = with_gradients(plain, g, *(part.astype(jnp.float32) for part in given))
    for ours, theirs in zip(with_gradients(by_kernels, g, *given), exact, strict=True):
        assert ours.dtype == jnp.bfloat16
        error = jnp.linalg.norm(ours.astype(jnp.float32) - theirs) / jnp.linalg.norm(theirs)
        assert error < 0.02


def test_the_gradient_goes_to_the_first_maximum() -> None:
    g = Geometry(1, 2, 2, 1, 1, 1, 0, 1, 2)
    ones = jnp.ones((1, 2, 2, 1))
    one = jnp.ones((1, 1)), jnp.ones(1)
    slope = jax.grad(lambda x: gpu_convolutions.conv_pool(g, *one, x).sum())
    np.testing.assert_array_equal(slope(ones)[0, :, :, 0], [[1, 0], [0, 0]])


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 1)])
def test_what_is_not_a_number_is_seen(place: tuple[int, int]) -> None:
    g = Geometry(1, 2, 2, 1, 1, 1, 0, 1, 2)
    x = jnp.ones((1, 2, 2, 1)).at[0, place[0], place[1]].set(jnp.nan)
    assert jnp.isnan(gpu_convolutions.conv_pool(g, jnp.ones((1, 1)), jnp.zeros(1), x)).all()


def test_without_a_gpu_the_layers_take_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    if jax.default_backend() == "gpu":
        pytest.skip("there is one")
    weights, x, sizes = jnp.ones((9, 2)), jnp.ones((1, 4, 4, 1)), (3, 1, 1, 2)
    assert layers._on_gpu(weights, x, *sizes) is None
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    layers._kernels.cache_clear()
    assert layers._on_gpu(weights, x, *sizes) is None  # JAX says so, but has no device
    layers._kernels.cache_clear()
    monkeypatch.setattr(layers, "_kernels", lambda: gpu_convolutions)
    found = layers._on_gpu(weights, x, *sizes)
    assert found == (gpu_convolutions, Geometry(1, 4, 4, 1, 2, 3, 1, 1, 2))
    assert layers._on_gpu(weights, x.astype(jnp.int8), *sizes) is None
    assert layers._on_gpu(jnp.ones((25, 2)), x, 5, 2, 1, 2) is None  # where they do not pay
    with jax.default_device("cpu"):
        assert layers._on_gpu(weights, x, *sizes) is None


def test_on_a_gpu_the_layers_take_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Geometry(2, 8, 8, 1, 4, 3, 1, 1, 2)
    weights, bias, x = (part[0] for part in arrays(g))
    pooled, plain_conv = plain(g, weights, bias, x), layers.conv(weights, x, 3, 1, 2)
    monkeypatch.setattr(
        layers,
        "_on_gpu",
        lambda w, x, *sizes: (gpu_convolutions, Geometry(*x.shape, w.shape[1], *sizes)),
    )
    np.testing.assert_allclose(plain(g, weights, bias, x), pooled, atol=1e-5)
    np.testing.assert_allclose(layers.conv(weights, x, 3, 1, 2), plain_conv, atol=1e-5)
