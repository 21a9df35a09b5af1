"""Fingerprints of features: any change shows, and other last bits do not."""

import dataclasses
import importlib

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedloom import data
from fedloom.data import fingerprints
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
    np.testing.assert_allclose(fingerprint([on_disk(tmp_path, X[:900])]), fingerprint([X[:900]]))


def on_disk(folder, x):
    np.save(folder / "x.npy", x)
    return OnDisk([np.load(folder / "x.npy", mmap_mode="r")])


def test_of_many_rows_on_the_disk_a_thousand_are_looked_at_from_the_first_to_the_last(tmp_path):
    looked_at = np.linspace(0, 4999, 1000).astype(int)
    held = on_disk(tmp_path, X)
    found = fingerprint([held])
    np.testing.assert_allclose(found, fingerprint([X[looked_at]]))
    for row in (0, looked_at[500], 4999):
        assert differ(
            found, fingerprint([on_disk(tmp_path, changed(lambda x, r=row: x[r].sort()))])
        )
    between = changed(lambda x: x[1].sort())
    assert 1 not in looked_at and found == fingerprint([on_disk(tmp_path, between)])
    another = on_disk(tmp_path, changed(another_unit))
    assert differ(found, fingerprint([another]))


@pytest.mark.parametrize("form", ["dense", "images", "sparse", "empty", "disk"])
def test_portions_of_rows_give_what_all_of_them_give(form, tmp_path, monkeypatch):
    sparse = np.where(X > 15, X, 0)
    made = {
        "dense": lambda: X,
        "images": lambda: X.reshape(-1, 5, 4),
        "sparse": lambda: csr_array(sparse),
        "empty": lambda: csr_array((7, 10**6)),
        "disk": lambda: on_disk(tmp_path, X),
    }
    block = made[form]()
    whole = fingerprint([block, block])
    monkeypatch.setattr(fingerprints, "_AT_ONCE", 64)
    np.testing.assert_allclose(fingerprint([block, block]), whole, rtol=1e-12)


def test_sparse_rows_are_cut_by_their_numbers_and_not_by_their_columns(monkeypatch):
    """A million columns of words took fifty times as long, four rows at a time."""
    columns = np.random.default_rng(0).integers(0, 10**6, 8000)
    rows = csr_array((np.ones(8000), columns, np.arange(0, 8001, 2)), shape=(4000, 10**6))
    cuts = []
    flat = fingerprints._flat
    monkeypatch.setattr(
        fingerprints, "_flat", lambda part: cuts.append(part.shape[0]) or flat(part)
    )
    monkeypatch.setattr(fingerprints, "_AT_ONCE", 4000)
    fingerprint([rows])
    assert cuts == [2000, 2000]


@pytest.mark.parametrize("scheme", ["iid", "features"])
def test_they_are_computed_once_for_rows_that_are_held(scheme, monkeypatch):
    dataset = data.Dataset("x", X, np.arange(5000) % 2, np.arange(2))
    count = {"iid": {"clients": 3}, "features": {"parties": 3}}[scheme]
    held = data.partition(dataset, scheme, **count)
    module = importlib.import_module(type(held).__module__)
    told = held.fingerprint(), held.identity()
    for name in ("fingerprint", "of_arrays"):
        monkeypatch.setattr(module, name, lambda *values: pytest.fail("once more"))
    assert (held.fingerprint(), held.identity()) == told
    monkeypatch.undo()
    assert dataclasses.replace(held, names=("a", "b", "c")).identity() != told[1]


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
