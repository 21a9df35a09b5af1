"""Adult's preprocessing."""

import lzma

import numpy as np
import pytest

from data.messages import raises
from fedloom.data.adult import FEATURES, read_adult
from fedloom.errors import DataError


def line(age, work, sex, income):
    return f"{age}, {work}, 7, BA, 13, Single, Clerk, Own, White, {sex}, 0, 0, 40, Peru, {income}\n"


TRAIN = line(30, "State", "Male", "<=50K") + line(50, "?", "Female", ">50K")
TEST = line(40, "?", "Male", ">50K.")


def write(folder, test=TEST):
    paths = folder / "adult.data", folder / "adult.test.xz"
    paths[0].write_text(TRAIN + "\n")
    paths[1].write_bytes(lzma.compress(f"|1x3 Cross validator\n{test}\n".encode()))
    return paths


def test_preprocessing(tmp_path):
    found = read_adult(*write(tmp_path))
    assert found.features == FEATURES
    assert found.x.shape == (2, 14)
    age, work = found.x[:, 0], found.x[:, 1]
    np.testing.assert_allclose(age, [-1, 1])
    np.testing.assert_allclose(work, [1, -1])  # "?" comes before "State"
    np.testing.assert_allclose(found.x[:, 2], 0)
    np.testing.assert_allclose(found.test.x[0, :2], [0, -1])  # by the training rows' statistics
    np.testing.assert_array_equal(found.y, [0, 1])
    np.testing.assert_array_equal(found.test.y, [1])
    np.testing.assert_array_equal(found.labels, ["<=50K", ">50K"])
    np.testing.assert_array_equal(found.columns["sex"], ["Male", "Female"])
    np.testing.assert_array_equal(found.test.columns["race"], ["White"])


@pytest.mark.parametrize(
    ("test", "parts"),
    [
        (line(40, "Circus", "Male", ">50K."), ("workclass", "training rows", "'Circus'", "row 1")),
        (line("old", "?", "Male", ">50K."), ("age", "a number", "'old'", "row 1")),
        (line(40, "?", "Male", "50K."), ("<=50K, >50K", "'50K'")),
        (line(40, "?, 1", "Male", ">50K."), ("line 2", "15 fields", "got 16")),
    ],
)
def test_malformed_rows_are_named(tmp_path, test, parts):
    train, path = write(tmp_path, test=test)
    with raises(DataError, path, *parts):
        read_adult(train, path)
