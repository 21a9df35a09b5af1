"""Convolutions by matrix products, and pooling, against JAX's own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.layout import layout_of
from fedloom.models import layers
from fedloom.rows import Spec


@pytest.mark.parametrize(
    "size,padding,stride", [(1, 0, 1), (3, 1, 1), (5, 0, 1), (5, 2, 1), (3, 1, 2), (3, 0, 2)]
)
def test_convolution_is_xlas(size, padding, stride, double):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2, 7, 8, 3)), rng.normal(size=(size * size * 3, 4))
    expected = jax.lax.conv_general_dilated(
        jnp.asarray(x), weights.reshape(size, size, 3, 4), (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    np.testing.assert_allclose(layers.conv(weights, x, size, padding, stride), expected, atol=1e-12)


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


def shapes(model, features, classes=10):
    """The shapes of the weight tensors, first layer to last."""
    spec = Spec(features, classes, "float32")
    layout = layout_of(lambda: model.init(jax.random.key(0), spec))
    return [shape for shape in layout.shapes if len(shape) > 1]


def test_the_published_networks_have_their_sizes():
    dense = [(120, 84), (84, 10)]
    small, colour = (28, 28, 1), (32, 32, 3)
    cnn1, cnn2 = fl.models.CNN1(), fl.models.CNN2()
    assert shapes(cnn1, small) == [(25, 6), (150, 16), (256, 120), *dense]
    assert shapes(cnn1, colour) == [(75, 6), (150, 16), (400, 120), *dense]
    assert shapes(cnn2, small) == [(25, 6), (150, 16), (400, 32), (512, 120), *dense]
    assert shapes(cnn2, colour) == [(75, 6), (150, 16), (400, 32), (800, 120), *dense]
    residual = shapes(fl.models.ResNet(), colour)
    assert len(residual) == 20  # layers with weights
    assert [a[1] for a in residual[:-1]] == [16] * 7 + [32] * 6 + [64] * 6
    assert shapes(fl.models.EmbeddingBag(), (64,), 4) == [(20_000, 64), (64, 4)]


def test_group_norm(double):
    x = np.random.default_rng(0).normal(2, 3, (2, 4, 5, 6))
    parts = np.asarray(layers.group_norm(jnp.asarray(x), 3)).reshape(2, 20, 3, 2)
    np.testing.assert_allclose(parts.mean((1, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(parts.std((1, 3)), 1, atol=1e-5)


def test_an_embedding_bag_is_the_mean_of_the_words_that_are_there(double):
    model = fl.models.EmbeddingBag(9, 3)
    table, head = model.init(jax.random.key(1), Spec((4,), 2, "float64"))
    words = np.array([[3, 5, 0, 0], [1, 1, 8, 2], [0, 0, 0, 0]])
    vectors = np.asarray(table["weights"])
    bags = np.array([vectors[[3, 5]].mean(0), vectors[[1, 1, 8, 2]].mean(0), np.zeros(3)])
    expected = bags @ head["weights"] + head["bias"]
    np.testing.assert_allclose(model.apply([table, head], jnp.asarray(words)), expected, atol=1e-12)


@pytest.mark.parametrize(
    "model,features,message",
    [
        (fl.models.CNN1(), (8, 8, 1), "at least 16 x 16"),
        (fl.models.ResNet(), (64,), "needs images"),
        (fl.models.CNN(), (3, 3, 1), "2 convolutions, each with pooling, leave something"),
        (fl.models.CNN(kernel=5, padding=0), (4, 4, 1), "leave something"),
        (fl.models.EmbeddingBag(), (8, 8, 1), "rows of word numbers"),
    ],
)
def test_rows_of_another_shape_are_refused(model, features, message):
    with pytest.raises(fl.FedloomError, match=message):
        shapes(model, features)


@pytest.mark.parametrize("model", [fl.models.GRU(), fl.models.EmbeddingBag()])
def test_measurements_are_no_symbols(model):
    arrays = model.init(jax.random.key(0), Spec((4,), 3, "float32"))
    with pytest.raises(
        fl.FedloomError, match=f"{type(model).__name__} needs rows of whole numbers"
    ):
        model.apply(arrays, jnp.zeros((2, 4)))


NETWORKS = [fl.models.MLP((20,)), fl.models.CNN((4,), (20,)), fl.models.CNN1(), fl.models.CNN2()]


def bounds(arrays, fans):
    """The largest weight and bias of each layer, over what uniform ones may have at most."""
    found = []
    for layer in arrays:
        outputs = layer["weights"].shape[1]
        bound = fans(layer["weights"].shape[0], outputs)
        found += [float(abs(layer[name]).max() / bound) for name in ("weights", "bias")]
    return np.array(found).reshape(-1, 2)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda model: type(model).__name__)
def test_fresh_weights_are_uniform_within_the_stated_bounds(network):
    spec = Spec((16, 16, 1), 10, "float32")
    key = jax.random.key(0)

    def fresh(how):
        arrays = dataclasses.replace(network, initialisation=how).init(key, spec)
        return [*arrays["conv"], *arrays["dense"]] if isinstance(arrays, dict) else arrays

    he = bounds(fresh("he"), lambda inputs, _: np.sqrt(6 / inputs))
    torch = bounds(fresh("torch"), lambda inputs, _: 1 / np.sqrt(inputs))
    assert (he[:, 0] > 0.9).all() and (he[:, 0] <= 1).all() and (he[:, 1] == 0).all()
    assert (torch > 0.6).all() and (torch <= 1).all()  # of some biases there are few
    last = fresh("glorot")[-1]["weights"]
    assert 0.9 < float(abs(last).max() / np.sqrt(6 / sum(last.shape))) <= 1
    for plain, default in zip(fresh("he"), fresh(network.initialisation), strict=True):
        np.testing.assert_array_equal(plain["weights"], default["weights"])


def test_a_glorot_kernel_counts_its_places_on_both_sides():
    kernel = layers.conv_init(jax.random.key(1), 3, 4, 50, "float32", "glorot")["weights"]
    assert 0.98 < float(abs(kernel).max() / np.sqrt(6 / (9 * 4 + 9 * 50))) <= 1


def test_a_resnet_as_pytorch_has_it_keeps_its_norms():
    arrays = fl.models.ResNet(1, 4, "torch").init(jax.random.key(0), Spec((8, 8, 3), 10, "float32"))
    assert all((part["scale"] == 1).all() and (part["bias"] == 0).all() for part in arrays[:-1])
    assert 0.8 < float(abs(arrays[0]["weights"]).max() * np.sqrt(27)) <= 1
    assert (arrays[-1]["bias"] != 0).all()


def test_a_gradient_becomes_a_vector_without_padding():
    """XLA would fuse the sum behind a bias's slope into the padding, number by number."""
    layout = layout_of(lambda: {"bias": jnp.zeros(20), "weights": jnp.zeros((30, 20))})

    def slope(vector, x):
        loss = lambda arrays: jnp.sum(jnp.tanh(x @ arrays["weights"] + arrays["bias"]))  # noqa: E731
        return layout.ravel(jax.grad(loss)(layout.unravel(vector)))

    program = jax.jit(slope).lower(jnp.zeros(layout.size), jnp.ones((8, 30))).compile()
    assert " pad(" not in program.as_text()


def test_a_pair_of_functions_has_one_name_in_every_process():
    """With addresses of functions in it, a comparison with a folder could not be gone on with."""

    def made(width, array=None):
        def call(arrays, x):
            return x[:, :width] if array is None else array

        return fl.models.Pair(len, call)

    here = f"{__name__}.test_a_pair_of_functions_has_one_name_in_every_process.<locals>.made"
    text = f"Pair(<built-in function len>, {here}.<locals>.call(array=None, width=3), None)"
    assert repr(made(3)) == repr(made(3)) == text != repr(made(4))
    assert repr(made(3, np.eye(2))) != repr(made(3, np.eye(2)))  # its contents are not compared
