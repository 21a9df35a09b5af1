"""Partitions: every row once, the same for the same seed, nobody empty, test rows to match."""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from data.messages import raises
from data.rows import dataset
from fedloom.data import (
    IID,
    SCHEMES,
    ByClient,
    ByColumn,
    ByLabel,
    BySize,
    Dataset,
    Dirichlet,
    OneClass,
    load,
    partition,
)
from fedloom.data import partitions as module
from fedloom.errors import DataError, ParameterError

SCHEMES_TO_TRY = st.one_of(
    st.builds(IID, st.integers(1, 8)),
    st.builds(BySize, st.integers(1, 8), st.sampled_from(["lognormal", "power"]), st.floats(0, 3)),
    st.builds(ByLabel, st.integers(3, 8), st.integers(1, 3)),
    st.builds(Dirichlet, st.integers(1, 5), st.floats(0.3, 100)),
    st.builds(OneClass, st.integers(3, 8)),
    st.builds(ByColumn, st.just("client"), st.integers(1, 3)),
    st.builds(ByClient, st.just("client"), st.integers(1, 3)),
)
LABELS = st.lists(st.integers(0, 2), min_size=45, max_size=80)


def balanced_enough(y):
    assume(np.bincount(y, minlength=3).min() >= 9)


@settings(deadline=None)
@given(SCHEMES_TO_TRY, LABELS, st.integers(0, 2**32))
def test_every_row_lands_once_and_nobody_is_empty(scheme, y, seed):
    balanced_enough(y)
    data = dataset(y, test=y[:40])
    clients = partition(data, scheme, seed=seed)
    rows = clients.train.x[:, 0].astype(int)
    assert sorted(rows) == list(range(len(y)))
    np.testing.assert_array_equal(clients.train.y, data.y[rows])
    assert clients.sizes.sum() == len(y)
    assert clients.sizes.min() >= 1
    assert len(set(clients.names)) == len(clients.sizes)
    assert sorted(clients.test.x[:, 0]) == list(range(40))
    assert clients.test_sizes.sum() == 40
    assert len(clients.test_sizes) == len(clients)


@settings(deadline=None)
@given(SCHEMES_TO_TRY, LABELS, st.floats(0.01, 0.99))
def test_held_out_rows_are_the_client_s_own(scheme, y, fraction):
    balanced_enough(y)
    whole = partition(dataset(y), scheme)
    parts = partition(dataset(y), scheme, test_fraction=fraction)
    assert parts.sizes.min() >= 1
    for client in range(len(whole)):
        train, test = parts.of(client).x, parts.test_of(client).x
        assert sorted([*train[:, 0], *test[:, 0]]) == sorted(whole.of(client).x[:, 0])
        assert abs(len(test) - fraction * (len(train) + len(test))) <= 1


@settings(deadline=None)
@given(SCHEMES_TO_TRY, LABELS)
def test_the_seed_settles_everything(scheme, y):
    balanced_enough(y)
    data = dataset(y, test=y[:40])
    once, again = (partition(data, scheme, seed=7) for _ in range(2))
    np.testing.assert_array_equal(once.train.x, again.train.x)
    np.testing.assert_array_equal(once.test.x, again.test.x)
    alone = partition(dataclasses.replace(data, test=None), scheme, seed=7)
    np.testing.assert_array_equal(once.train.x, alone.train.x)


@pytest.mark.parametrize(
    "scheme", [IID(6), BySize(6), ByLabel(6, 2), Dirichlet(6, 1.0), OneClass(6), ByColumn("client")]
)
def test_another_seed_gives_another_division(scheme):
    data = dataset(np.arange(90) % 3)
    one, other = (partition(data, scheme, seed=seed).train.x for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_test_rows_follow_the_shares_of_the_training_rows():
    y = np.repeat([0, 1], [800, 200])
    clients = partition(dataset(y, test=np.repeat([0, 1], [400, 100])), ByLabel(4, 1))
    for client in range(4):
        assert set(clients.test_of(client).y) == set(clients.of(client).y)
    np.testing.assert_allclose(clients.test_sizes, clients.sizes / 2, atol=1)
    natural = partition(dataset(y, test=y[:50]), "client")
    for client in range(5):
        np.testing.assert_array_equal(natural.test_of(client).x[:, 0] % 5, client)


def test_test_rows_are_drawn_at_random():
    data = dataset(np.zeros(40, int), test=np.zeros(40, int))
    held = partition(data, IID(2)).test_of(0).x[:, 0]
    assert set(held) not in (set(range(20)), set(range(20, 40)))


def test_small_test_sets_favour_nobody():
    """A hundred classes with one test row each: rounding must not serve the same clients first."""
    data = dataset(np.arange(1000) % 100, test=np.arange(100))
    sizes = np.mean([partition(data, IID(10), seed=s).test_sizes for s in range(40)], axis=0)
    np.testing.assert_allclose(sizes, 10, atol=2)


def test_test_rows_without_counterpart_are_refused():
    data = dataset(np.zeros(20, int), test=[0, 1], classes=2)
    with raises(DataError, "toy test", "none has 1", "test_fraction"):
        partition(data, IID(2))


def test_held_out_rows_are_drawn_at_random():
    found = partition(dataset(np.zeros(100, int)), "client", test_fraction=0.5)
    assert found.of(0).x.max() > found.test_of(0).x.min()
    assert found.of(0).x.min() < found.test_of(0).x.max()


def test_regressions_and_rows_of_many_labels():
    numbers = Dataset("numbers", np.ones((20, 2)), np.linspace(0, 1, 20))
    pairs = Dataset("pairs", np.ones((20, 2)), np.zeros((20, 2), int), np.arange(2))
    for data, what in ((numbers, "numbers"), (pairs, "a class for each place")):
        assert partition(data, IID(4), test_fraction=0.2).test_sizes.sum() == 4
        for scheme in (ByLabel(4, 1), Dirichlet(4, 1.0), OneClass(4)):
            with raises(DataError, data.name, what, "Use IID"):
                partition(data, scheme)
    tested = dataclasses.replace(numbers, test=numbers)
    assert sorted(partition(tested, BySize(4)).test.y) == list(numbers.y)


def test_sparse_features_become_dense(monkeypatch):
    data = dataclasses.replace(dataset(np.arange(10) % 2), x=csr_array(np.eye(10)))
    clients = partition(data, IID(2))
    assert clients.train.x.dtype == np.float32
    np.testing.assert_array_equal(clients.train.x.sum(axis=0), 1)
    monkeypatch.setattr(module, "_MOST_DENSE_BYTES", 399)
    with raises(DataError, "toy", "10 rows of 10 sparse features", "limit"):
        partition(data, IID(2))


@pytest.mark.parametrize(
    ("scheme", "parts"),
    [
        (ByLabel(2, 4), ("2 clients with 4 different classes", "3 classes")),
        (ByLabel(2, 1), ("2 clients with 1 different classes", "3 classes")),
        (OneClass(2), ("each of the 3 classes", "got 2")),
        (BySize(31), ("31 clients", "30 rows", "fewer clients")),
        (IID(31), ("31 clients and 30 rows", "fewer clients")),
        (ByColumn("site"), ("column 'site'", "'client'")),
    ],
)
def test_impossible_divisions_are_explained(scheme, parts):
    with raises(DataError, *parts):
        partition(dataset(np.arange(30) % 3), scheme)


def test_schemes_by_key():
    data = dataset(np.arange(30) % 3)
    by_key = partition(data, "label", clients=6, classes_each=2, seed=3)
    np.testing.assert_array_equal(by_key.train.x, partition(data, ByLabel(6, 2), seed=3).train.x)
    assert {key: cls.__name__ for key, cls in SCHEMES.items()} == {
        "iid": "IID",
        "label": "ByLabel",
        "dirichlet": "Dirichlet",
        "column": "ByColumn",
        "size": "BySize",
        "client": "ByClient",
        "one_class": "OneClass",
        "features": "ByFeatures",
    }


@pytest.mark.parametrize(
    ("scheme", "parameters", "parts"),
    [
        ("labels", {}, ("known key", "'labels'", "Did you mean 'label'")),
        ("label", {"clients": 3}, ("ByLabel", "needs classes_each", "Write")),
        ("label", {"clients": 3, "classes": 2}, ("ByLabel", "'classes'", "'classes_each'")),
        ("iid", {"clients": 0}, ("IID", "clients", ">= 1", "got 0")),
        ("dirichlet", {"clients": 3, "alpha": -1.0}, ("Dirichlet", "alpha", "> 0", "got -1.0")),
        ("size", {"clients": 3, "law": "zipf"}, ("BySize", "law", "'lognormal'", "got 'zipf'")),
        ("iid", {"clients": 3, "test_fraction": 1.5}, ("test_fraction", "between 0 and 1", "1.5")),
        (IID(3), {"clients": 3}, ("clients", "IID(clients=3)", "in the scheme itself")),
        (IID, {}, ("a scheme or its key", "IID(clients=10)")),
    ],
)
def test_wrong_parameters_are_explained(scheme, parameters, parts):
    with raises(ParameterError, *parts):
        partition(dataset(np.arange(30) % 3), scheme, **parameters)


def test_a_bundled_set_end_to_end():
    clients = partition(load("digits"), "dirichlet", clients=10, alpha=0.5, test_fraction=0.2)
    assert len(clients) == 10
    assert clients.classes == 10
    assert clients.sizes.sum() + clients.test_sizes.sum() == 1797


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ParameterError, match="partition: seed must be a whole number"):
        partition(dataset([0, 1, 2, 0, 1, 2]), "iid", clients=3, seed=seed)
