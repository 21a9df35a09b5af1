"""What each scheme promises of its clients."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data.messages import raises
from data.rows import dataset
from fedloom.data import (
    ByClient,
    ByColumn,
    ByFeatures,
    ByLabel,
    BySize,
    Dirichlet,
    OneClass,
    partition,
)
from fedloom.data.schemes import apportion
from fedloom.errors import DataError


@given(st.integers(0, 200), st.lists(st.floats(0, 10), min_size=1, max_size=9), st.floats(0, 0.999))
def test_apportionment_is_exact_and_off_by_less_than_one(total, weights, offset):
    assume(sum(weights) > 0.01)
    found = apportion(total, np.array(weights), offset)
    assert found.sum() == total
    quotas = total * np.array(weights) / sum(weights)
    assert (np.abs(found - quotas) < 1 + 1e-9).all()


def test_apportionment_survives_rounding():
    assert apportion(60_000, np.ones(7), np.nextafter(1, 0)).sum() == 60_000


def holds(clients):
    """Which classes each client has, (clients, classes)."""
    return np.array(
        [np.bincount(clients.of(i).y, minlength=clients.classes) for i in range(len(clients))]
    )


def test_by_label_gives_each_client_its_number_of_classes_and_shares_them_fairly():
    clients = partition(dataset(np.arange(300) % 10), ByLabel(10, 3))
    counts = holds(clients)
    np.testing.assert_array_equal((counts > 0).sum(axis=1), 3)
    np.testing.assert_array_equal((counts > 0).sum(axis=0), 3)
    assert set(counts[counts > 0]) == {10}


def test_dirichlet_tends_to_iid_as_alpha_grows_and_to_one_holder_as_it_falls():
    data = dataset(np.arange(4000) % 4)
    even = holds(partition(data, Dirichlet(5, 1e6)))
    np.testing.assert_allclose(even, 200, atol=5)
    uneven = holds(partition(data, Dirichlet(3, 0.05)))
    assert (uneven.max(axis=0) / 1000).mean() > 0.8


def test_dirichlet_gives_up_where_somebody_must_stay_empty():
    with raises(DataError, "toy", "alpha = 0.001", "20 clients", "larger alpha"):
        partition(dataset(np.arange(40) % 2), Dirichlet(20, 0.001))


def test_sizes_follow_their_law():
    data = dataset(np.arange(10_000) % 2)
    np.testing.assert_array_equal(partition(data, BySize(8, spread=0)).sizes, 1250)
    power = np.sort(partition(data, BySize(4, "power", 1.0)).sizes)[::-1]
    np.testing.assert_allclose(power, 10_000 * np.array([12, 6, 4, 3]) / 25, atol=2)
    largest = {int(partition(data, BySize(4, "power"), seed=s).sizes.argmax()) for s in range(20)}
    assert largest == {0, 1, 2, 3}
    logs = np.log(partition(data, BySize(200, spread=0.5)).sizes)
    assert 0.4 < logs.std() < 0.6


@pytest.mark.parametrize(("positive", "clients"), [(24, 5), (2, 1), (98, 19), (50, 10), (10, 2)])
def test_one_class_rounds_the_number_of_positive_clients(positive, clients):
    found = holds(partition(dataset([1] * positive + [0] * (100 - positive)), OneClass(20)))
    assert ((found > 0).sum(axis=1) == 1).all()
    assert (found[:, 1] > 0).sum() == clients
    for column in found.T:
        slices = column[column > 0]
        assert slices.max() - slices.min() <= 1


def test_by_column_and_by_client():
    data = dataset(np.arange(100) % 2)
    clients = partition(data, ByColumn("client", clients_each=2))
    assert clients.names[:3] == ("owner 0/0", "owner 0/1", "owner 1/0")
    assert set(clients.sizes) == {10}
    assert set(clients.of(2).x[:, 0] % 5) == {1}
    natural = partition(data, "client")
    assert natural.names == tuple(f"owner {i}" for i in range(5))
    np.testing.assert_array_equal(natural.of(3).x[:, 0], np.arange(3, 100, 5))
    joined = partition(data, ByClient(owners_each=2))
    assert sorted(joined.sizes) == [20, 40, 40]
    assert joined.names != partition(data, ByClient(owners_each=2), seed=1).names
    assert sorted(owner for name in joined.names for owner in name.split("+")) == list(
        natural.names
    )


@given(st.integers(1, 30), st.integers(0, 40))
def test_blocks_of_features(parties, more):
    blocks = ByFeatures(parties).blocks(parties + more)
    features = np.arange(parties + more)
    np.testing.assert_array_equal(np.concatenate([features[block] for block in blocks]), features)
    widths = [len(features[block]) for block in blocks]
    assert len(blocks) == parties
    assert max(widths) - min(widths) <= 1


def test_more_parties_than_features():
    with raises(DataError, "4 parties", "3 features"):
        ByFeatures(4).blocks(3)
