"""Where the files of public sets are looked for, and what a download must satisfy."""

import bz2
import gzip
import hashlib
import re

import numpy as np
import pytest

from data.messages import raises
from data.test_leaf import shard
from fedloom.data import CATALOGUE, load, partition
from fedloom.data.entries import Copy, DatasetEntry
from fedloom.data.fetch import File, locate
from fedloom.data.libsvm import read_libsvm
from fedloom.errors import DataError, MissingDataError, ParameterError
from fedloom.experiments.readers import options_of_data, options_of_path

ROWS = b"-1 1:1\n+1 2:1\n"
NAMES = {
    *("a9a", "w8a", "ijcnn1", "phishing", "mushrooms", "covtype", "gisette", "adult"),
    *("mnist", "fashion-mnist", "cifar10", "femnist", "shakespeare", "agnews"),
    *("heart", "digits", "breast_cancer", "wine", "iris", "diabetes"),
}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A data folder, a cache and a source, all empty."""
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path / "cache"))
    for name in ("own/toy", "source"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def digest(raw):
    return hashlib.sha256(raw).hexdigest()


def published(folders, raw=None, checksum=None, name="rows.bz2", **fields):
    """A file at a source, by default packed rows under their right checksum."""
    source = folders / "source" / name
    source.write_bytes(bz2.compress(ROWS) if raw is None else raw)
    return File("toy/rows", source.as_uri(), checksum or digest(ROWS), **fields)


def left_behind(folders):
    return [path for path in (folders / "cache").rglob("*") if path.is_file()]


def test_every_entry_is_complete():
    assert set(CATALOGUE) == NAMES
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert entry.description and entry.licence and entry.source
        assert all(option.doc for option in options_of_data(entry))
        for file in (file for copy in entry.copies for file in copy.files):
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert file.url is None or file.url.startswith(("https://", "http://"))


def test_every_option_of_a_reader_of_files_has_a_meaning():
    assert all(option.doc for option in options_of_path())


def test_only_sets_without_a_published_checksum_lack_one():
    lacking = {e.name for e in CATALOGUE.values() if any(f.sha256 is None for f in e.files)}
    assert lacking == {"gisette", "femnist"}


@pytest.mark.parametrize("packing", ["", ".gz", ".bz2"])
def test_own_files_come_first_under_any_compression(folders, packing):
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[packing]
    own = folders / "own" / "toy" / f"rows{packing}"
    own.write_bytes(pack(ROWS))
    assert locate(published(folders)) == own
    assert left_behind(folders) == []
    kept = folders / "cache" / "data" / "toy" / "rows"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(ROWS)
    assert locate(published(folders)) == own


def test_download_is_verified_and_kept(folders, capsys):
    file = published(folders)
    path = locate(file)
    assert path == folders / "cache" / "data" / "toy" / "rows.bz2"
    assert len(read_libsvm(path)) == 2
    captured = capsys.readouterr()
    assert "downloading" in captured.err
    assert captured.out == ""
    (folders / "source" / "rows.bz2").unlink()
    assert locate(file) == path


def test_wrong_checksum_is_refused_and_leaves_nothing(folders):
    file = published(folders, raw=bz2.compress(ROWS + b"1 1:1\n"))
    with raises(DataError, file.url, f"must be {digest(ROWS)}", "got", "fresh copy"):
        locate(file)
    assert left_behind(folders) == []


def test_damaged_download_is_refused_and_leaves_nothing(folders):
    with raises(DataError, "unpacked", "fresh copy"):
        locate(published(folders, raw=bz2.compress(ROWS)[:20]))
    assert left_behind(folders) == []


def test_checksum_of_a_packed_file(folders):
    packed = bz2.compress(ROWS)
    assert locate(published(folders, checksum=digest(packed), packed=True)).exists()


def test_missing_source_says_all_there_is_to_know(folders):
    file = published(folders)
    (folders / "source" / "rows.bz2").unlink()
    places = (folders / "own" / "toy" / "rows", folders / "cache" / "data" / "toy" / "rows")
    with raises(MissingDataError, "toy/rows", *places, file.url, "failed", "FEDLOOM_DATA"):
        locate(file)
    assert left_behind(folders) == []


def test_nothing_is_downloaded_without_a_checksum_or_an_address(folders, monkeypatch):
    with raises(MissingDataError, "libsvm/gisette_scale", "gisette_scale.bz2", "no checksum"):
        load("gisette")
    with raises(MissingDataError, "femnist", "no direct download", "preprocess.sh"):
        load("femnist")
    monkeypatch.delenv("FEDLOOM_DATA")
    with raises(MissingDataError, "FEDLOOM_DATA (not set)"):
        load("gisette")


def toy(folders, **fields):
    full = Copy((published(folders, **fields),), read_libsvm, "toy")
    part = Copy((File("toy/part"),), read_libsvm, "toy (a part)")
    return DatasetEntry("toy", "two rows", "none", "nowhere", (full, part))


def test_stand_in_is_used_and_named_where_the_full_set_is_absent(folders):
    (folders / "own" / "toy" / "part").write_bytes(ROWS)
    assert toy(folders).open().name == "toy (a part)"
    (folders / "own" / "toy" / "rows").write_bytes(ROWS)
    assert toy(folders).open().name == "toy"


def test_without_a_stand_in_the_full_set_is_fetched(folders):
    assert toy(folders).open().name == "toy"


def test_files_that_are_lacking_are_fetched_one_by_one(folders):
    own = folders / "own" / "toy" / "first"
    own.write_bytes(ROWS)
    files = (File("toy/first"), published(folders))
    entry = DatasetEntry(
        "two", "files", "none", "nowhere", (Copy(files, lambda *paths: list(paths)),)
    )
    assert entry.open() == [own, folders / "cache" / "data" / "toy" / "rows.bz2"]


def test_verification_of_own_files(folders):
    own = folders / "own" / "toy" / "rows"
    own.write_bytes(ROWS)
    assert len(toy(folders).open(verify=True)) == 2
    own.write_bytes(ROWS + b"+1 1:1\n")
    assert len(toy(folders).open()) == 3
    with raises(DataError, own, digest(ROWS), "another version"):
        toy(folders).open(verify=True)
    own.unlink()
    (own.parent / "part").write_bytes(ROWS)
    with raises(DataError, own.parent / "part", "no published checksum"):
        toy(folders).open(verify=True)


def test_a_checksum_of_a_packed_file_cannot_verify_an_unpacked_one(folders):
    own = folders / "own" / "toy" / "rows"
    own.write_bytes(ROWS)
    with raises(DataError, own, "packed file", "cannot be verified"):
        toy(folders, packed=True).open(verify=True)


def test_binary_labels_and_test_rows_by_name(folders):
    libsvm = folders / "own" / "libsvm"
    libsvm.mkdir()
    (libsvm / "a9a").write_bytes(ROWS)
    (libsvm / "a9a.t.gz").write_bytes(gzip.compress(b"+1 122:1\n"))
    found = load("a9a")
    assert (found.name, found.test.name) == ("a9a", "a9a test")
    assert found.x.shape == (2, 123)
    assert found.test.x.shape == (1, 123)
    np.testing.assert_array_equal(found.y, [0, 1])
    np.testing.assert_array_equal(found.labels, [-1, 1])
    alone = load("a9a", test_file=False)
    assert alone.test is None and alone.x.shape == (2, 123)
    (libsvm / "mushrooms").write_bytes(ROWS)
    with pytest.raises(ParameterError, match="mushrooms: there is no option 'test_file'"):
        load("mushrooms", test_file=False)


def test_covtype_is_class_two_against_the_rest(folders):
    (folders / "own" / "covtype").mkdir()
    rows = "".join(",".join(["7"] * 54 + [str(label)]) + "\n" for label in (5, 2, 1, 2))
    (folders / "own" / "covtype" / "covtype.20k.data").write_text(rows)
    found = load("covtype")
    assert found.name == "covtype (20k subset)"
    np.testing.assert_array_equal(found.y, [0, 1, 0, 1])
    assert (found.x == 7).all() and found.x.shape == (4, 54)
    path = folders / "own" / "covtype" / "covtype.20k.data"
    path.write_text(rows.replace("7", "3", 1).replace("\n7", "\n5", 1))
    scaled = load("covtype", scale=True)
    np.testing.assert_allclose(scaled.x[:, 0], [0, 0.5, 1, 1])
    assert (scaled.x[:, 1:] == 0).all() and scaled.x.dtype == np.float32
    path.write_text(rows.replace("7", "x", 1))
    with raises(DataError, path, "feature 1 must be a number", "1 of 4 rows"):
        load("covtype")


def test_femnist_counts_its_writers_and_names_its_classes(folders):
    for part in ("train", "test"):
        rows = ([[0.5] * 784] * 2, [0, 61])
        shard(folders / "own" / "femnist" / part / "0.json", {"ann": rows, "bob": rows})
    found = load("femnist")
    assert (found.name, found.test.name) == ("femnist (2 writers)", "femnist (2 writers) test")
    for part in (found, found.test):
        assert part.x.shape == (4, 28, 28, 1)
        assert list(part.labels[part.y]) == ["0", "z", "0", "z"]
    alone = load("femnist", digits=True)
    assert alone.name == "femnist (digits, 2 writers)"
    for part in (alone, alone.test):
        assert list(part.labels) == list("0123456789")
        assert list(part.labels[part.y]) == ["0", "0"] and len(part.x) == 2
        assert list(part.columns["client"]) == ["ann", "bob"]
    with raises(ParameterError, "digits must be"):
        load("femnist", digits="all")


def test_a_writer_without_digits_to_train_on_is_not_tested_on_digits(folders):
    picture = [0.5] * 784
    for part, labels in (("train", [60, 61]), ("test", [2, 61])):
        both = {"ann": ([picture] * 2, [0, 1]), "bob": ([picture] * 2, labels)}
        shard(folders / "own" / "femnist" / part / "0.json", both)
    assert len(partition(load("femnist"), "client")) == 2
    alone = load("femnist", digits=True)
    assert list(alone.test.columns["client"]) == ["ann", "ann"]
    assert len(partition(alone, "client")) == 1


def test_options_are_checked():
    with raises(ParameterError, "digits", "no option 'length'", "no options"):
        load("digits", length=3)
    assert CATALOGUE["agnews"].copies[0].options == ("vocabulary", "length")


def test_where_the_cache_is_off_nothing_is_downloaded_and_no_folder_made(folders, monkeypatch):
    monkeypatch.setenv("FEDLOOM_CACHE", "off")
    monkeypatch.chdir(folders)
    file = File("toy/rows", (folders / "source" / "rows").as_uri(), "0" * 64)
    with pytest.raises(MissingDataError, match=r"in the cache \(off\).*FEDLOOM_CACHE is off"):
        locate(file)
    assert not (folders / "off").exists()
