"""The synthetic(alpha, beta) family."""

import numpy as np
import pytest

from data.messages import raises
from fedloom.data import synthetic
from fedloom.errors import ParameterError

SMALL = {"clients": 6, "samples": 200, "features": 20}


def test_shapes_classes_and_lengths():
    found = synthetic(1, 1, **SMALL)
    assert found.train.x.shape == (1200, 20)
    np.testing.assert_array_equal(found.sizes, 200)
    np.testing.assert_array_equal(found.labels, [-1, 1])
    assert set(np.unique(found.train.y)) == {0, 1}
    np.testing.assert_allclose(np.linalg.norm(found.train.x, axis=1), 1)
    raw = synthetic(1, 1, normalise=False, **SMALL)
    assert np.linalg.norm(raw.train.x, axis=1).std() > 0.1
    np.testing.assert_array_equal(raw.train.y, found.train.y)


def test_alpha_never_changes_a_label_of_argmax_but_does_of_sign():
    def labels(alpha, kind):
        return synthetic(alpha, 1, labels=kind, **SMALL).train.y

    np.testing.assert_array_equal(labels(0, "argmax"), labels(10, "argmax"))
    assert (labels(0, "sign") != labels(10, "sign")).mean() > 0.05


def test_features_follow_the_stated_law():
    """x - v_k has variances j^-1.2, and beta is a standard deviation."""
    found = synthetic(0, 5, clients=300, samples=50, features=40, normalise=False)
    x = found.train.x.reshape(300, 50, 40)
    np.testing.assert_allclose(
        x.var(axis=1, ddof=1).mean(axis=0), np.arange(1, 41) ** -1.2, rtol=0.1
    )
    centres = x.mean(axis=(1, 2))
    assert 4.4 < centres.std() < 5.6


def test_labels_follow_from_the_features_by_one_hyperplane_each():
    from sklearn.svm import LinearSVC

    found = synthetic(1, 0, normalise=False, **SMALL)
    for client in range(6):
        rows = found.of(client)
        if len(np.unique(rows.y)) == 2:
            model = LinearSVC(C=1e4, max_iter=100_000).fit(rows.x, rows.y)
            assert model.score(rows.x, rows.y) > 0.99


def test_extreme_heterogeneity_gives_clients_of_one_class():
    found = synthetic(10, 10, clients=30, samples=200, features=20)
    shares = found.train.y.reshape(30, 200).mean(axis=1)
    assert (np.maximum(shares, 1 - shares) >= 0.95).sum() >= 25


def test_the_seed_settles_everything():
    one, again, other = (synthetic(1, 1, seed=seed, **SMALL).train.x for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"alpha": -1}, ("alpha", ">= 0", "got -1")),
        ({"samples": 0}, ("samples", ">= 1", "got 0")),
        ({"labels": "two"}, ("labels", "'argmax'", "got 'two'")),
    ],
)
def test_wrong_parameters_are_explained(changes, parts):
    with raises(ParameterError, "synthetic", *parts):
        synthetic(**{"alpha": 1, "beta": 1} | changes)
