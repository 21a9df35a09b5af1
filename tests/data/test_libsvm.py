"""LIBSVM text: what is read, and what every malformed line is told."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_svmlight_file

from data.messages import raises
from fedloom.data import libsvm, libsvm_text
from fedloom.data.libsvm import read_libsvm
from fedloom.data.partitions import partition
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


@pytest.mark.parametrize("size", [1, 7, 64, 10**6])
def test_blocks_of_any_size_give_what_scikit_learn_reads(tmp_path, monkeypatch, size):
    """Lines, words and line ends go on from one block to the next."""
    rng = np.random.default_rng(0)
    places = [[j for j in range(1, 9) if rng.random() < 0.4] for _ in range(40)]
    lines = [
        f"{rng.integers(0, 3)}\t" + "  ".join(f"{j}:{rng.normal():.3g}" for j in row)
        for row in places
    ]
    lines[3] += " # a remark: 1:2"
    lines[5] = "1 qid:7 2:3"
    path = write(tmp_path, "\r\n".join([*lines, "", "  ", "+2 8:1e-3"]))
    monkeypatch.setattr(libsvm, "_BLOCK", size)
    found, (x, y) = read_libsvm(path), load_svmlight_file(path, zero_based=False)
    np.testing.assert_array_equal(found.x.toarray(), x.toarray())
    np.testing.assert_array_equal(found.labels[found.y], y)
    assert found.x.dtype == x.dtype and found.x.has_sorted_indices


@pytest.mark.parametrize(
    "text", ["1 1:1\n0  1:2", "\x0c1", " 1", "1\n\n0", "1 1:1 \n0 1:2\n\t1  1:3"]
)
def test_blanks_before_a_last_line_that_is_not_ended(tmp_path, text):
    found, (x, y) = read_libsvm(path := write(tmp_path, text)), load_svmlight_file(path)
    np.testing.assert_array_equal(found.x.toarray(), x.toarray()[:, : found.x.shape[1]])
    np.testing.assert_array_equal(found.labels[found.y], y)


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
        ("1_0 1:1", "a label must be a finite number", "'1_0'"),
        ("1 1:2:3", "a value must be a finite number", "'1:2:3'"),
        ("1 :3", "an index must be a whole number from 1", "':3'"),
        ("1 1e0:3", "an index must be a whole number from 1", "'1e0:3'"),
        ("1 : 2:1", "an index must be a whole number from 1", "':'"),
        ("é 1:1", "a label must be a finite number", "'é'"),
        ("1\0 1:1", "a label must be a finite number", "'1\\x00'"),
    ],
)
def test_malformed_lines_are_named(tmp_path, line, rule, found):
    path = write(tmp_path, f"1 1:1\n\n{line}\n1 1:1\n")
    with raises(DataError, f"{path}, line 3: ", rule, f"got {found}"):
        read_libsvm(path, n_features=5)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (f"1 {'9' * 5000}:1", "an index must be a whole number from 1"),
        (f"1 1:1.{'1' * 5000}", "a value must be a finite number"),
        (f"1 1:1e-{'9' * 5000}", "a value must be a finite number"),
        ("1" * 5000, "a label must be a finite number"),
        ("1 100000001:1", "an index must not exceed 100000000"),
        (
            f"1 {' '.join(f'{j}:1' for j in range(1, 2000))} x",
            "a feature must be written index:value",
        ),
    ],
)
def test_numbers_and_lines_of_any_length_are_told_in_few_words(tmp_path, line, rule):
    path = write(tmp_path, f"1 1:1\n{line}\n")
    with pytest.raises(DataError, match=f"line 2: {rule}") as caught:
        read_libsvm(path)
    assert len(str(caught.value)) < len(str(path)) + 250


def test_a_line_is_not_read_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "_BLOCK", 16)
    monkeypatch.setattr(libsvm_text, "LONGEST_LINE", 50)
    path = write(tmp_path, "1 1:1\n1 2:1\n1 " + "3" * 100)
    with raises(DataError, f"{path}, line 3: ", "must not be longer than 50 bytes"):
        read_libsvm(path)


def test_a_fault_in_a_later_block_has_its_own_line(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "_BLOCK", 32)
    path = write(tmp_path, "1 1:1\n" * 30 + "1 1:x\n" + "1 1:1\n" * 30)
    with raises(DataError, f"{path}, line 31: ", "'1:x'"):
        read_libsvm(path)


def test_many_features_need_to_be_announced_and_cost_nothing_by_themselves(tmp_path):
    path = write(tmp_path, "1 1:1\n0 2000000000:1\n")
    found = read_libsvm(path, n_features=2**31 - 1)
    assert found.x.shape == (2, 2**31 - 1) and found.x.nnz == 2
    assert partition(found, "features", parties=3).widths[0] == 715827883


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
