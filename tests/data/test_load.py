"""One door to all data."""

import numpy as np
import polars as pl
import pytest

from data.messages import raises
from data.test_images import idx
from data.test_leaf import shard
from fedloom.data import load
from fedloom.errors import DataError, MissingDataError, ParameterError


@pytest.mark.parametrize(
    ("name", "rows", "features", "classes"),
    [
        ("digits", 1797, 64, 10),
        ("breast_cancer", 569, 30, 2),
        ("wine", 178, 13, 3),
        ("iris", 150, 4, 3),
        ("diabetes", 442, 10, 0),
    ],
)
def test_bundled_sets(name, rows, features, classes):
    found = load(name)
    assert found.name == name
    assert found.x.shape == (rows, features)
    assert len(found.features) == features
    assert (0 if found.labels is None else len(found.labels)) == classes
    if classes:
        np.testing.assert_array_equal(np.unique(found.y), np.arange(classes))
    else:
        assert found.y.dtype == np.float64


def test_digits_are_scaled():
    assert load("digits").x.min() == 0
    assert load("digits").x.max() == 1


@pytest.mark.parametrize("name", ["rows.svm", "rows.libsvm", "rows.txt"])
def test_libsvm_by_suffix(tmp_path, name):
    (tmp_path / name).write_text("1 1:1\n2 2:1\n")
    (tmp_path / "test.svm").write_text("1 1:1\n")
    found = load(str(tmp_path / name), test=str(tmp_path / "test.svm"), n_features=7)
    assert found.x.shape == (2, 7)
    assert len(found.test) == 1


def test_tables_by_suffix(tmp_path):
    frame = pl.DataFrame({"x": [1, 2], "y": [0, 1]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert len(load(tmp_path / name, label="y")) == 2
        with raises(ParameterError, tmp_path / name, "label must be given"):
            load(tmp_path / name)


def test_idx_images_with_labels_beside_them(tmp_path):
    for part, count in (("train", 3), ("t10k", 2)):
        images = tmp_path / f"{part}-images-idx3-ubyte"
        images.write_bytes(idx(np.zeros((count, 28, 28))))
        with raises(MissingDataError, images, f"{part}-labels-idx1-ubyte"):
            load(images)
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.arange(count)))
    train, test = (tmp_path / f"{part}-images-idx3-ubyte" for part in ("train", "t10k"))
    found = load(train, test=test)
    assert (len(found), len(found.test)) == (3, 2)


def test_folders_of_leaf_json(tmp_path):
    shard(tmp_path / "train" / "0.json", {"ann": ([[1]], [0])})
    assert list(load(tmp_path).columns["client"]) == ["ann"]


def test_what_cannot_be_loaded(tmp_path):
    with raises(ParameterError, "no dataset 'a9'", "Did you mean 'a9a'?"):
        load("a9")
    with raises(ParameterError, "no dataset 'fashion_mnist'", "'fashion-mnist'"):
        load("fashion_mnist")
    for path in ("absent.csv", str(tmp_path / "absent"), "train-images-idx3-ubyte.gz"):
        with raises(MissingDataError, path, "no such file"):
            load(path)
    (tmp_path / "rows.dat").write_text("")
    with raises(DataError, tmp_path / "rows.dat", ".svm", "'.dat'", "Rename"):
        load(tmp_path / "rows.dat")
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    with raises(ParameterError, "no option 'n_feature'", "'n_features'"):
        load(tmp_path / "rows.svm", n_feature=3)
    with raises(ParameterError, "verify", "rows.svm"):
        load(tmp_path / "rows.svm", verify=True)
