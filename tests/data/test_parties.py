"""Columns over parties, and the alignment of their rows."""

import importlib.util

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

import fedloom as fl
from fedloom.data.dataset import Dataset
from fedloom.data.intersection import Asking, reply_to
from fedloom.errors import WireError

IDS = {"bank": [7, 3, 9, 4], "shop": [4, 9, 1, 7, 8], "phone": [9, 5, 7, 4]}
PACKAGE = "private_set_intersection"
PRIVATE = bool(importlib.util.find_spec(PACKAGE)) and bool(
    importlib.util.find_spec(f"{PACKAGE}.python")
)


def test_columns_are_divided_and_sparse_ones_stay_sparse():
    x = csr_array(np.eye(6))
    dataset = Dataset("eye", x, np.arange(6) % 2, np.array([0, 1]))
    parties = fl.data.partition(dataset, "features", parties=4, test_fraction=0.5, seed=3)
    assert parties.widths == (2, 2, 1, 1) and parties.rows == 3 and parties.classes == 2
    assert all(issparse(block) for block in parties.features)
    trained = np.hstack([block.toarray() for block in parties.features])
    tested = np.hstack([block.toarray() for block in parties.test_features])
    assert sorted(np.vstack([trained, tested]).argmax(1)) == list(range(6))
    turned = parties.in_order((3, 1, 0, 2))
    assert turned.widths == (1, 2, 2, 1) and turned.names[0] == "party 3"


def test_each_party_scales_its_own_columns():
    wine = fl.data.load("wine")
    parties = fl.data.partition(wine, fl.data.ByFeatures(3, standardise=True))
    for block in parties.features:
        np.testing.assert_allclose(block.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(block.std(0), 1, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_of_single_precision_are_scaled_in_double(sparse):
    x = np.random.default_rng(0).normal([2000, 0.5, 1e-9], [2, 0.1, 1e-9], (40_000, 3))
    x = np.column_stack([x, np.full(len(x), 0.1)]).astype(np.float32)
    data = Dataset("years", csr_array(x) if sparse else x, np.arange(len(x)) % 2, np.arange(2))
    (scaled,) = fl.data.partition(data, "features", parties=1, standardise=True).features
    exact = x.astype(np.float64)
    wanted = (exact - (0 if sparse else exact.mean(0))) / [*exact.std(0)[:3], 1]
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.toarray() if sparse else scaled, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("features", "y", "words"),
    [
        ([], [1, 2], "at least one"),
        ([np.ones((3, 1))], [1, 2], r"\(2, d\)"),
        ([np.ones((2, 0))], [1, 2], "d >= 1"),
    ],
)
def test_misfits_are_refused(features, y, words):
    with pytest.raises(fl.FedloomError, match=words):
        fl.data.from_parties(features, y)


@pytest.mark.parametrize("how", ["plain", "private"])
def test_parties_are_joined_on_their_ids(how):
    if how == "private" and not PRIVATE:
        pytest.skip("the psi extra (openmined-psi) is not installed")
    aligned = fl.data.align(IDS, how=how)
    assert aligned.size == 3 and list(aligned.ids) == [7, 9, 4]
    for name, column in IDS.items():
        assert [column[row] for row in aligned.rows[name]] == [7, 9, 4]
    assert aligned.dropped == {"bank": 1, "shop": 2, "phone": 1}
    assert "3 people" in aligned.report() and "2 rows of shop" in aligned.report()


def test_ids_must_be_distinct_and_shared():
    with pytest.raises(fl.FedloomError, match="occur once"):
        fl.data.align({"a": [1, 1], "b": [1]}, how="plain")
    with pytest.raises(fl.FedloomError, match="no id in common"):
        fl.data.align({"a": [1], "b": [2]}, how="plain")
    with pytest.raises(fl.FedloomError, match="at least two"):
        fl.data.align({"a": [1]}, how="plain")
    if not PRIVATE:
        with pytest.raises(fl.FedloomError, match=r"fedloom\[psi\]"):
            fl.data.align(IDS)


@pytest.mark.skipif(not PRIVATE, reason="the psi extra (openmined-psi) is not installed")
@pytest.mark.parametrize(
    "asked,own,common",
    [(3_000, 2, 1), (3_000, 2, 0), (1, 3_000, 1), (3, 3, 0), (0, 5, 0), (5, 0, 0), (0, 0, 0)],
)
def test_sets_of_very_different_sizes_are_intersected(asked, own, common):
    shared = [f"both {i}" for i in range(common)]
    mine = np.array(shared + [f"mine {i}" for i in range(asked - common)], dtype=str)
    theirs = np.array([f"theirs {i}" for i in range(own - common)] + shared, dtype=str)
    asking = Asking(mine)
    found = asking.found(reply_to(asking.request(), theirs))
    assert found.shape == (asked,) and list(mine[found]) == shared


@pytest.mark.skipif(not PRIVATE, reason="the psi extra (openmined-psi) is not installed")
def test_a_party_of_two_among_hundreds_is_aligned():
    ids = {"bank": [f"p{i}" for i in range(500)], "shop": ["p77", "nobody"]}
    assert list(fl.data.align(ids, how="private").ids) == ["p77"]
    with pytest.raises(fl.FedloomError, match="no id in common"):
        fl.data.align({"bank": ids["bank"], "shop": ["nobody", "either"]}, how="private")


@pytest.mark.skipif(not PRIVATE, reason="the psi extra (openmined-psi) is not installed")
@pytest.mark.parametrize("junk", [b"", b"\x0a\x05hello", b"hello"])
def test_what_is_no_encrypted_id_is_an_error_of_the_message(junk):
    """It comes from another party, and must be known to."""
    ids = np.array(["a", "b"])
    asking = Asking(ids)
    again, theirs = reply_to(asking.request(), ids)
    with pytest.raises(WireError, match="message of the private set intersection"):
        asking.found((junk, theirs))
    with pytest.raises(WireError, match="message of the private set intersection"):
        reply_to(junk, ids)
    assert asking.found((again, theirs)).all()
