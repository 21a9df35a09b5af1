"""LEAF's JSON."""

import json
import lzma

import numpy as np
import pytest

from data.messages import raises
from fedloom.data.leaf import read_leaf
from fedloom.errors import DataError, MissingDataError


def shard(path, users, **changes):
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = json.dumps(content | changes).encode()
    path.write_bytes(lzma.compress(raw) if path.suffix == ".xz" else raw)


def test_shards_of_train_and_test(tmp_path):
    shard(tmp_path / "train" / "0.json", {"ann": ([[1, 2], [3, 4]], [5, 7])})
    shard(tmp_path / "train" / "1.json.xz", {"bob": ([[5, 6]], [5])})
    shard(tmp_path / "test" / "0.json", {"ann": ([[9, 9]], [8])})
    found = read_leaf(tmp_path, shape=(2, 1))
    np.testing.assert_array_equal(found.x[..., 0], [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(found.labels, [5, 7, 8])
    np.testing.assert_array_equal(found.y, [0, 1, 0])
    np.testing.assert_array_equal(found.columns["client"], ["ann", "ann", "bob"])
    np.testing.assert_array_equal(found.test.y, [2])
    np.testing.assert_array_equal(found.test.columns["client"], ["ann"])


def test_a_writer_of_two_runs_counts_once(tmp_path):
    shard(tmp_path / "run_a" / "train" / "0.json", {"ann": ([[1]], [0])})
    shard(tmp_path / "run_a" / "test" / "0.json", {"ann": ([[2]], [1])})
    shard(tmp_path / "run_b" / "train" / "0.json", {"ann": ([[3]], [0]), "bob": ([[4]], [1])})
    shard(tmp_path / "run_b" / "test" / "0.json", {"ann": ([[5]], [0]), "bob": ([[6]], [1])})
    found = read_leaf(tmp_path)
    np.testing.assert_array_equal(found.x, [[1], [4]])
    np.testing.assert_array_equal(found.test.x, [[2], [6]])


def test_loose_shards_have_no_test_rows(tmp_path):
    shard(tmp_path / "all.json", {"ann": ([[1]], [0])})
    assert len(read_leaf(tmp_path)) == 1
    assert read_leaf(tmp_path).test is None


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"num_samples": [3]}, ("x of user 'ann'", "num_samples = 3", "got 2")),
        ({"user_data": {}}, ("users, num_samples and user_data", "'ann'")),
        ({"user_data": {"ann": {"x": [[1]]}}}, ("users, num_samples and user_data", "'y'")),
        ({"user_data": {"ann": {"x": ["to be", "or"], "y": [0, 1]}}}, ("'ann'", "rows of numbers")),
        ({"user_data": {"ann": {"x": [[1], [1, 2]], "y": [0, 1]}}}, ("'ann'", "of one length")),
    ],
)
def test_malformed_shards_are_named(tmp_path, changes, parts):
    path = tmp_path / "0.json"
    shard(path, {"ann": ([[1], [2]], [0, 1])}, **changes)
    with raises(DataError, path, *parts):
        read_leaf(tmp_path)


def test_broken_repeated_and_absent_shards(tmp_path):
    with raises(MissingDataError, tmp_path, "no LEAF shards"):
        read_leaf(tmp_path)
    shard(tmp_path / "0.json", {"ann": ([[1]], [0])})
    shard(tmp_path / "1.json", {"ann": ([[1]], [0])})
    with raises(DataError, tmp_path / "1.json", "one shard only", "'ann'"):
        read_leaf(tmp_path)
    (tmp_path / "1.json").write_text("{")
    with raises(DataError, tmp_path / "1.json", "not JSON"):
        read_leaf(tmp_path)
