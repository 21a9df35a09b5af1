"""The transformer against its equations in NumPy, with padding, and in training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import fedloom as fl
from fedloom.deploy import hub_model
from fedloom.errors import DataError, ParameterError
from fedloom.rows import Rows, Spec

NETWORK = fl.models.Transformer(vocabulary=7, width=6, heads=2, blocks=2)
X = np.array([[3, 5, 1, 0, 0], [1, 1, 6, 2, 4], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]])


@pytest.fixture
def arrays(double):
    fresh = NETWORK.init(jax.random.key(0), Spec((5,), 3, "float64"))
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda a: rng.normal(size=a.shape), fresh)


def norm(part, h):
    scaled = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    return scaled * part["scale"] + part["bias"]


def dense(part, h):
    return h @ part["weights"] + part["bias"]


def by_hand(arrays, words):
    """The scores of one text, of which only the words that are there are looked at."""
    words = words[words > 0]
    h = arrays["words"]["weights"][words] + arrays["places"]["weights"][: len(words)]
    for block in arrays["blocks"]:
        look = block["attention"]
        query, key, value = np.split(dense(look["input"], norm(look["norm"], h)), 3, axis=1)
        heads = []
        for own in (slice(0, 3), slice(3, 6)):
            weights = np.exp(query[:, own] @ key[:, own].T / np.sqrt(3))
            heads.append(weights / weights.sum(1, keepdims=True) @ value[:, own])
        h = h + dense(look["output"], np.concatenate(heads, axis=1))
        wide = dense(block["dense"]["input"], norm(block["dense"]["norm"], h))
        gelu = wide * (1 + erf(wide / np.sqrt(2))) / 2
        h = h + dense(block["dense"]["output"], gelu)
    mean = norm(arrays["norm"], h).mean(0) if len(words) else np.zeros(6)
    return dense(arrays["output"], mean)


def test_the_transformer_is_its_equations_on_the_words_that_are_there(arrays):
    expected = [by_hand(arrays, words) for words in X]
    np.testing.assert_allclose(jax.jit(NETWORK.apply)(arrays, X), expected, rtol=1e-10)


def test_gradients_are_finite_where_texts_are_padding(arrays):
    problem = fl.problems.Supervised(NETWORK)
    rows = Rows(jnp.asarray(X), jnp.array([0, 1, 2, 0]))
    slopes = jax.jit(jax.grad(lambda a: problem.losses(a, rows).mean()))(arrays)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    words = slopes["words"]["weights"]
    assert not words[0].any() and all(words[k].any() for k in range(1, 7))


def test_what_it_cannot_read_is_refused():
    with pytest.raises(ParameterError, match=r"width must be a multiple of heads = 4; got 6.*= 8"):
        fl.models.Transformer(width=6)
    with pytest.raises(DataError, match=r"rows of word numbers; rows have shape \(8, 8, 1\)"):
        NETWORK.init(jax.random.key(0), Spec((8, 8, 1), 3, "float32"))
    fresh = NETWORK.init(jax.random.key(0), Spec((5,), 3, "float32"))
    with pytest.raises(DataError, match="Transformer needs rows of whole numbers"):
        NETWORK.apply(fresh, jnp.zeros((2, 5)))


def test_a_packed_transformer_comes_back_and_goes_to_no_other_tool(tmp_path):
    problem = fl.problems.Supervised(NETWORK)
    fresh = NETWORK.init(jax.random.key(0), Spec((5,), 3, "float32"))
    own = hub_model(problem, fresh, (5,), list("abc"))
    own.save(tmp_path / "own.safetensors")
    x = X.astype(np.int32)
    np.testing.assert_array_equal(fl.load(tmp_path / "own.safetensors").predict(x), own.predict(x))
    with pytest.raises(ParameterError, match=r"got a Transformer.*Deployed.save"):
        own.export_torch(tmp_path / "torch.safetensors")
    with pytest.raises(ParameterError, match=r"got a Transformer.*Deployed.save"):
        own.export_onnx(tmp_path / "own.onnx")
