"""The GRU against its equations in NumPy, and problems with a label at every place of a row."""

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import DataError
from fedloom.rows import Rows, Spec

SPEC = Spec((6,), 5, "float64")
NETWORK = fl.models.GRU(embedding=3, hidden=4)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


@pytest.fixture
def arrays(double):
    fresh = NETWORK.init(jax.random.key(0), SPEC)
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda a: rng.normal(size=a.shape), fresh)


def by_hand(arrays, x):
    outputs = np.zeros((*x.shape, 5))
    for row, symbols in enumerate(x):
        h = np.zeros(4)
        for place, symbol in enumerate(symbols):
            e = arrays["embedding"]["weights"][symbol]
            a = e @ arrays["input"]["weights"] + arrays["input"]["bias"]
            b = h @ arrays["state"]["weights"] + arrays["state"]["bias"]
            r, z = sigmoid(a[:4] + b[:4]), sigmoid(a[4:8] + b[4:8])
            h = (1 - z) * np.tanh(a[8:] + r * b[8:]) + z * h
            outputs[row, place] = h @ arrays["output"]["weights"] + arrays["output"]["bias"]
    return outputs


def test_the_gru_is_its_equations(arrays):
    x = np.random.default_rng(2).integers(0, 5, (3, 6))
    np.testing.assert_allclose(NETWORK.apply(arrays, x), by_hand(arrays, x), rtol=1e-12)


def test_loss_and_accuracy_are_means_over_the_places_of_a_row(arrays):
    rng = np.random.default_rng(3)
    rows = Rows(rng.integers(0, 5, (3, 6)), rng.integers(0, 5, (3, 6)))
    problem = fl.problems.Supervised(model=NETWORK)
    scores = by_hand(arrays, rows.x)
    logarithms = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    chosen = np.take_along_axis(logarithms, rows.y[..., None], -1)[..., 0]
    np.testing.assert_allclose(problem.losses(arrays, rows), -chosen.mean(1), rtol=1e-12)
    right = (scores.argmax(-1) == rows.y).mean(1)
    np.testing.assert_allclose(problem.metrics()["accuracy"].function(arrays, rows), right)


def test_the_network_of_the_shakespeare_task_has_the_papers_shapes():
    shapes = jax.eval_shape(
        lambda: fl.models.GRU().init(jax.random.key(0), Spec((50,), 86, "float32"))
    )
    sizes = jax.tree.map(lambda a: a.shape, shapes)
    assert sizes["embedding"]["weights"] == (86, 50)
    assert sizes["state"]["weights"] == (50, 150)
    assert sizes["output"]["weights"] == (50, 86)


def test_training_on_a_text_lowers_the_loss():
    text = np.arange(40) % 5
    rows = text[:36].reshape(6, 6), text[1:37].reshape(6, 6)
    problem = fl.problems.Supervised(model=fl.models.GRU(embedding=4, hidden=8))
    result = fl.simulate(
        fl.algorithms.DRFA(lr=0.5, weight_lr=0.01, local_steps=5),
        problem,
        fl.data.from_arrays([rows, rows]),
        rounds=60,
        batch_size=2,
        eval_every=60,
    )
    assert result.rows[0]["loss"] > 1.2 and result.final["accuracy"] > 0.95


def test_rows_that_are_no_texts_are_refused():
    with pytest.raises(DataError, match=r"GRU needs rows of symbols.*\(2, 2\)"):
        fl.models.GRU().init(jax.random.key(0), Spec((2, 2), 5, "float32"))
