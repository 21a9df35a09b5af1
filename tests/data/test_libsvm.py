"""LIBSVM text: what is read, and what every malformed line is told."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from data.messages import raises
from fedloom.data.libsvm import read_libsvm
from fedloom.errors import DataError, MissingDataError

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def write(folder, text, name="some.svm"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@settings(deadline=None)  # the first example imports scikit-learn
@given(
    x=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=NUMBERS),
    data=st.data(),
)
def test_what_is_written_is_read(tmp_path_factory, x, data):
    y = data.draw(hnp.arrays(np.float64, len(x), elements=NUMBERS))
    lines = [
        " ".join([repr(float(label)), *(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v)])
        for label, row in zip(y, x, strict=True)
    ]
    path = write(tmp_path_factory.mktemp("svm"), "\n".join(lines))
    found = read_libsvm(path, n_features=x.shape[1], regression=True)
    np.testing.assert_array_equal(found.x.toarray(), x)
    np.testing.assert_array_equal(found.y, y)


def test_comments_blank_lines_and_rows_without_features(tmp_path):
    path = write(tmp_path, "# head\n+1 2:0.5 # a remark\n-1\n\n+1 1:3\r\n\n\n")
    found = read_libsvm(path)
    np.testing.assert_array_equal(found.x.toarray(), [[0, 0.5], [0, 0], [3, 0]])
    np.testing.assert_array_equal(found.y, [1, 0, 1])
    np.testing.assert_array_equal(found.labels, [-1, 1])
    assert found.name == "some.svm"


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip), (".bz2", bz2), (".xz", lzma)])
def test_compressed_files(tmp_path, suffix, pack):
    packed = pack.compress(b"2 1:1\n1 2:1\n")
    found = read_libsvm(write(tmp_path, packed, f"a.svm{suffix}"))
    np.testing.assert_array_equal(found.y, [1, 0])
    cut = write(tmp_path, packed[: len(packed) // 2], f"cut.svm{suffix}")
    with raises(DataError, cut, "unpacked", "fresh copy"):
        read_libsvm(cut)


@pytest.mark.parametrize(
    ("line", "rule", "found"),
    [
        ("yes 1:1", "a label must be a finite number", "'yes'"),
        ("nan 1:1", "a label must be a finite number", "'nan'"),
        ("1,2 1:1", "a label must be a finite number", "'1,2'"),
        ("1 1:a", "a value must be a finite number", "'1:a'"),
        ("1 1:nan", "a value must be a finite number", "'1:nan'"),
        ("1 1:1e999", "a value must be a finite number", "'1:1e999'"),
        ("1 1:", "a value must be a finite number", "'1:'"),
        ("1 0:2", "an index must be a whole number from 1", "'0:2'"),
        ("1 -1:2", "an index must be a whole number from 1", "'-1:2'"),
        ("1 1.5:2", "an index must be a whole number from 1", "'1.5:2'"),
        ("1 99999999999:2", "an index must be a whole number from 1", "'99999999999:2'"),
        ("1 2:1 1:1", "indices must ascend", "'1:1'"),
        ("1 2:1 2:1", "indices must ascend", "'2:1'"),
        ("1 2", "index:value", "'2'"),
        ("1 9:1", "must not exceed n_features = 5", "'9:1'"),
    ],
)
def test_malformed_lines_are_named(tmp_path, line, rule, found):
    path = write(tmp_path, f"1 1:1\n\n{line}\n1 1:1\n")
    with raises(DataError, f"{path}, line 3: ", rule, f"got {found}"):
        read_libsvm(path, n_features=5)


def test_empty_and_missing_files(tmp_path):
    path = write(tmp_path, "# nothing\n\n")
    with raises(DataError, path, "at least one row"):
        read_libsvm(path)
    with raises(MissingDataError, tmp_path / "absent.svm", "no such file"):
        read_libsvm(tmp_path / "absent.svm")


def test_test_rows_share_width_and_classes(tmp_path):
    train = write(tmp_path, "1 1:1\n2 2:1\n")
    found = read_libsvm(train, test=write(tmp_path, "2 4:1\n", "t.svm"))
    assert found.x.shape == (2, 4)
    assert found.test.x.shape == (1, 4)
    np.testing.assert_array_equal(found.test.y, [1])
    narrow = read_libsvm(train, test=write(tmp_path, "2 1:1\n", "n.svm"))
    assert narrow.x.shape == (2, 2)
    assert narrow.test.x.shape == (1, 2)
    strange = write(tmp_path, "3 1:1\n", "strange.svm")
    with raises(DataError, strange, "one of 1, 2", "'3'"):
        read_libsvm(train, test=strange)


def test_labels_that_are_not_whole_make_a_regression(tmp_path):
    whole, broken = write(tmp_path, "1 1:1\n3 1:1\n"), write(tmp_path, "0.5 1:1\n3 1:1\n", "b.svm")
    assert read_libsvm(whole).labels is not None
    for found in (read_libsvm(broken), read_libsvm(whole, regression=True)):
        assert found.labels is None
        assert found.y[1] == 3.0
