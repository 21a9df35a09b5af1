"""Fingerprints of features: any change shows, and other last bits do not."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedloom import data
from fedloom.data.fingerprints import differ, fingerprint
from fedloom.on_disk import OnDisk

X = np.random.default_rng(0).normal(3, 10, (5000, 20))


def changed(how):
    x = X.copy()
    how(x)
    return x


def one_value(x):
    x[2717, 3] += 0.1


def two_rows(x):
    x[[4, 4000]] = x[[4000, 4]]


def two_columns(x):
    x[:, [0, 7]] = x[:, [7, 0]]


def two_values(x):
    x[5, 6], x[6, 5] = X[6, 5], X[5, 6]


def another_unit(x):
    x[:, 2] *= 1.0001


@pytest.mark.parametrize("how", [one_value, two_rows, two_columns, two_values, another_unit])
def test_changes_are_seen(how):
    assert differ(fingerprint([X]), fingerprint([changed(how)]))


def test_last_bits_are_not_seen():
    bits = X * (1 + 1e-15 * np.random.default_rng(1).normal(size=X.shape))
    assert not np.array_equal(X, bits) and not differ(fingerprint([X]), fingerprint([bits]))
    moved = (X - 1e5) + 1e5  # as by a mean that is off by its last bits
    assert not differ(fingerprint([X - 3]), fingerprint([moved - 3]))


def test_what_is_not_known_or_not_finite_is_no_difference():
    assert not differ(None, fingerprint([X])) and not differ(fingerprint([X]), None)
    assert fingerprint([np.array([[1.0, np.nan]])]) is None
    assert not differ(fingerprint([np.zeros((3, 2))]), fingerprint([np.zeros((3, 2))]))


def test_sparse_rows_images_and_rows_on_the_disk(tmp_path):
    sparse = np.where(X > 15, X, 0)
    np.testing.assert_allclose(fingerprint([csr_array(sparse)]), fingerprint([sparse]))
    images = X.reshape(-1, 5, 4).astype(np.float32)
    np.testing.assert_allclose(fingerprint([images]), fingerprint([X.astype(np.float32)]))
    np.save(tmp_path / "x.npy", X[:900])
    on_disk = OnDisk([np.load(tmp_path / "x.npy", mmap_mode="r")])
    np.testing.assert_allclose(fingerprint([on_disk]), fingerprint([X[:900]]))


def test_clients_and_parties_have_one_of_all_their_features():
    dataset = data.Dataset("x", X, np.arange(5000) % 2, np.arange(2))
    for scheme, options in (("iid", {"clients": 3}), ("features", {"parties": 3})):
        held = data.partition(dataset, scheme, test_fraction=0.2, **options)
        again = data.partition(dataset, scheme, test_fraction=0.2, **options)
        assert held.fingerprint() == again.fingerprint()
        other = dataclasses.replace(dataset, x=changed(one_value))
        now = data.partition(other, scheme, test_fraction=0.2, **options)
        assert now.identity() == held.identity()
        assert differ(held.fingerprint(), now.fingerprint())
