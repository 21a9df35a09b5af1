"""Normalised rows: by the training rows of everyone, channel by channel, test rows alike."""

import numpy as np
import pytest

from fedloom.data import Dataset, partition
from fedloom.errors import DataError, ParameterError

RNG = np.random.default_rng(3)


def images(rows):
    x = RNG.normal([0.2, 5.0, -1.0], [1.0, 0.1, 30.0], (rows, 4, 5, 3)).astype(np.float32)
    return Dataset("images", x, RNG.integers(0, 2, rows), np.arange(2))


def test_each_channel_of_the_training_rows_has_mean_0_and_deviation_1():
    data = images(90)
    options = {"clients": 4, "classes_each": 1, "test_fraction": 0.3, "seed": 1}
    raw = partition(data, "label", **options)
    clients = partition(data, "label", **options, normalise=True)
    x = clients.train.x
    assert x.dtype == np.float32 and x.shape == raw.train.x.shape
    np.testing.assert_allclose(x.mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std((0, 1, 2)), 1, rtol=1e-5)
    found = clients.normalisation
    by_hand = raw.train.x.astype(np.float64)
    np.testing.assert_allclose(found.mean, by_hand.mean((0, 1, 2)), rtol=1e-9)
    np.testing.assert_allclose(found.deviation, by_hand.std((0, 1, 2)), rtol=1e-9)
    np.testing.assert_array_equal(clients.test.x, found.of(raw.test.x))  # by training rows alone
    assert abs(clients.test.x.mean((0, 1, 2))).max() > 1e-4
    np.testing.assert_array_equal(clients.train.y, raw.train.y)
    assert raw.normalisation is None


def test_features_are_channels_and_constant_ones_stay_finite():
    x = np.stack([np.arange(10.0), np.full(10, 7.0), 1e-10 * np.arange(10.0)], 1)
    data = Dataset("flat", x, np.arange(10) % 2, np.arange(2))
    rows = partition(data, "iid", clients=2, normalise=True).train.x
    np.testing.assert_allclose(rows.std(0), [1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(rows.mean(0), 0, atol=1e-12)


def test_words_and_columns_of_parties_are_refused():
    words = Dataset("words", np.ones((6, 3), np.int64), np.arange(6) % 2, np.arange(2))
    with pytest.raises(DataError, match="normalise is for images and measurements"):
        partition(words, "iid", clients=2, normalise=True)
    with pytest.raises(ParameterError, match="Use standardise = true"):
        partition(images(4), "features", parties=2, normalise=True)
    with pytest.raises(ParameterError, match="normalise must be true or false; got 'yes'"):
        partition(images(4), "iid", clients=2, normalise="yes")
