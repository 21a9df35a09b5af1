"""Local copies of the public sets, held against the counts that describe them."""

import dataclasses

import numpy as np
import pytest

from conftest import data_folder
from fedloom.data import load, partition
from fedloom.data.packed import find

pytestmark = pytest.mark.skipif(data_folder() is None, reason="no folder with public datasets")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDLOOM_DATA", str(data_folder()))
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path))
    return data_folder()


def need(folder, *places):
    for place in places:
        if find(folder, place) is None:
            pytest.skip(f"{place} is not in the data folder")


@pytest.mark.parametrize(
    ("name", "counts", "features", "test_counts"),
    [
        ("a9a", [24720, 7841], 123, [12435, 3846]),
        ("w8a", [48270, 1479], 300, [14497, 454]),
        ("ijcnn1", [45137, 4853], 22, [82989, 8712]),
        ("phishing", [4898, 6157], 68, None),
        ("mushrooms", [3916, 4208], 112, None),
    ],
)
def test_libsvm_sets(folder, name, counts, features, test_counts):
    need(folder, f"libsvm/{name}")
    found = load(name, verify=True)
    assert found.x.shape == (sum(counts), features)
    np.testing.assert_array_equal(np.bincount(found.y), counts)
    if test_counts is None:
        assert found.test is None
    else:
        assert found.test.x.shape == (sum(test_counts), features)
        np.testing.assert_array_equal(np.bincount(found.test.y), test_counts)


def test_rows_without_features_are_kept(folder):
    need(folder, "libsvm/w8a")
    found = load("w8a")
    assert (np.diff(found.x.indptr) == 0).sum() == 4203
    assert (np.diff(found.test.x.indptr) == 0).sum() == 1252


def test_adult_is_a9a_row_by_row(folder):
    need(folder, "adult/adult.data", "libsvm/a9a")
    adult, a9a = load("adult", verify=True), load("a9a")
    for ours, theirs in ((adult, a9a), (adult.test, a9a.test)):
        np.testing.assert_array_equal(ours.y, theirs.y)
        female = theirs.x[:, [71]].toarray()[:, 0] == 1
        np.testing.assert_array_equal(ours.columns["sex"] == "Female", female)
    np.testing.assert_allclose(adult.x.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(adult.x.std(axis=0), 1)
    by_sex = partition(adult, "column", column="sex")
    assert by_sex.names == ("Female", "Male")
    np.testing.assert_array_equal(by_sex.sizes, [10771, 21790])
    np.testing.assert_array_equal(by_sex.test_sizes, [5421, 10860])


def test_covtype_stand_in(folder):
    need(folder, "covtype/covtype.20k.data")
    if find(folder, "covtype/covtype.data") is not None:
        pytest.skip("the full set is there")
    found = load("covtype", verify=True)
    assert found.name == "covtype (20k subset)"
    np.testing.assert_array_equal(np.bincount(found.y), [13978, 6022])


@pytest.mark.parametrize(
    ("name", "mean", "test_mean"), [("mnist", 0.1307, 0.1325), ("fashion-mnist", 0.2860, 0.2868)]
)
def test_idx_sets(folder, name, mean, test_mean):
    need(folder, f"{name}/train-images-idx3-ubyte")
    found = load(name, verify=True)
    assert found.x.shape == (60000, 28, 28, 1)
    assert found.test.x.shape == (10000, 28, 28, 1)
    assert found.x.mean(dtype=np.float64) == pytest.approx(mean, abs=5e-5)
    assert found.test.x.mean(dtype=np.float64) == pytest.approx(test_mean, abs=5e-5)


@pytest.mark.thorough
def test_cifar10(folder):
    need(folder, "cifar10/labels.npz")
    found = load("cifar10")
    means = found.x.mean(axis=(0, 1, 2), dtype=np.float64) * 255
    np.testing.assert_allclose(means, [125.307, 122.950, 113.865], atol=1e-3)
    test_means = found.test.x.mean(axis=(0, 1, 2), dtype=np.float64) * 255
    np.testing.assert_allclose(test_means, [126.025, 123.709, 114.854], atol=1e-3)
    np.testing.assert_array_equal(found.y[:5], [6, 9, 9, 4, 1])
    np.testing.assert_array_equal(found.test.y[:5], [3, 8, 8, 0, 6])


@pytest.mark.thorough
def test_femnist(folder):
    need(folder, "femnist/run_a")
    found = load("femnist")
    assert found.name == "femnist (207 writers)"
    assert found.x.shape[1:] == (28, 28, 1)
    assert len(found.labels) == 62
    np.testing.assert_allclose(found.x[:50] * 255, np.round(found.x[:50] * 255), atol=1e-4)
    clients = partition(found, "client")
    assert len(clients) == 207
    assert clients.sizes.sum() == len(found)


def test_shakespeare(folder):
    need(folder, "shakespeare/speeches.jsonl")
    found = load("shakespeare", verify=True)
    assert found.x.shape[1] == 50
    assert len(found.labels) == 86
    np.testing.assert_array_equal(found.x[:, 1:], found.y[:, :-1])
    assert len({name.partition("/")[0] for name in np.unique(found.columns["client"])}) == 37


def test_agnews(folder):
    need(folder, "agnews/test.csv", "agnews/train_subset.csv")
    if find(folder, "agnews/train.csv") is not None:
        pytest.skip("the full set is there")
    found = load("agnews", verify=True, vocabulary=5000, length=32)
    assert found.name == "agnews (31k subset)"
    np.testing.assert_array_equal(np.bincount(found.y), [7825, 7787, 7845, 8062])
    np.testing.assert_array_equal(np.bincount(found.test.y), [1900] * 4)
    assert found.x.shape == (31519, 32)
    assert found.x.max() == 4999
    assert (found.test.x == 1).mean() < 0.25


def test_one_class_clients_of_a9a(folder):
    """20 clients of one class each, as in the AUC experiments: 24 in 100 rows are positive."""
    need(folder, "libsvm/a9a")
    clients = partition(dataclasses.replace(load("a9a"), test=None), "one_class", clients=20)
    positive = [clients.of(i).y.all() for i in range(20)]
    assert sum(positive) == 5
