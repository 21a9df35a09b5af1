"""Texts of one's own: by words and by bytes, from tables and folders, and into a transformer."""

import numpy as np
import pytest

import fedloom as fl
from data.messages import raises
from fedloom.data import load, tokeniser
from fedloom.errors import DataError, ParameterError

TABLE = 'review,stars,shop\n"good, very good",up,a\nbad day,down,a\n,down,b\ngood day,up,b\n'


def test_bytes_are_numbered_from_one_and_cut_or_padded():
    found = tokeniser([], tokens="bytes", length=4)
    assert found.vocabulary == 257
    np.testing.assert_array_equal(
        found.rows(["aé", "abcdef", ""]), [[98, 196, 170, 0], [98, 99, 100, 101], [0] * 4]
    )
    every = "".join(map(chr, range(128)))
    assert tokeniser([], tokens="bytes", length=128).rows([every]).max() == 128


def test_words_are_those_of_the_training_texts_by_frequency():
    found = tokeniser(["b a b", "B c!"], vocabulary=4, length=3)
    assert found.words == ("b", "!") and found.vocabulary == 4
    np.testing.assert_array_equal(found.rows(["a B d b", "!"]), [[1, 2, 1], [3, 0, 0]])
    assert "2 words" in repr(found) and "!" not in repr(found)


def test_a_column_of_a_table_holds_texts(tmp_path):
    path, test = tmp_path / "reviews.csv", tmp_path / "test.csv"
    path.write_text(TABLE)
    test.write_text("review,stars,shop\nnew day,up,c\n")
    found = load(path, text="review", label="stars", length=4, test=test)
    assert list(found.labels) == ["down", "up"] and list(found.y) == [1, 0, 0, 1]
    assert list(found.columns["shop"]) == ["a", "a", "b", "b"] and "review" not in found.columns
    assert found.tokeniser.words[:2] == ("good", "day")
    np.testing.assert_array_equal(found.x[2], 0)
    np.testing.assert_array_equal(found.test.x, [[1, 3, 0, 0]])
    assert (found.name, found.test.name) == ("reviews", "reviews test")
    with raises(DataError, path, "column 'reviw'", "Did you mean 'review'?"):
        load(path, text="reviw", label="stars")
    with raises(ParameterError, "tokens must be one of 'words', 'bytes'; got 'letters'"):
        load(path, text="review", label="stars", tokens="letters")
    with raises(ParameterError, path, "label must be given"):
        load(path, text="review")


def folder(root, texts):
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    return root


def test_folders_of_texts_are_classes_or_clients_and_classes(tmp_path):
    plain = folder(tmp_path / "plain", {"ham/1.txt": b"hi you", "spam/2.txt": b"buy you"})
    (plain / ".DS_Store").write_bytes(b"")
    found = load(plain, tokens="bytes", length=8, test=plain)
    assert list(found.labels) == ["ham", "spam"] and found.x.shape == (2, 8) and not found.columns
    np.testing.assert_array_equal(found.x, found.test.x)
    both = folder(tmp_path / "both", {"ann/ham/1.txt": b"hi", "bob/ham/1.txt": b"hi there"})
    assert list(load(both).columns["client"]) == ["ann", "bob"]
    folder(both, {"ann/2.txt": b"hi"})
    with raises(DataError, both, "all lie in CLASS/ or all in CLIENT/CLASS/"):
        load(both)
    folder(plain, {"ham/3.txt": b"\xff"})
    with raises(DataError, plain / "ham" / "3.txt", "UTF-8; byte 1"):
        load(plain)
    folder(plain, {"ham/4.doc": b""})
    with raises(DataError, plain / "ham" / "4.doc", "must be one of .txt", "1 of 4"):
        load(plain)


def test_a_transformer_learns_from_a_table_of_texts(tmp_path):
    rows = [f"{'so bad' if k % 2 else 'quite good'} {k},{k % 2},{k % 4}" for k in range(32)]
    path = tmp_path / "tiny.csv"
    path.write_text("\n".join(["text,label,client", *rows]))
    data = load(path, text="text", label="label", tokens="bytes", length=12)
    network = fl.models.Transformer(data.tokeniser.vocabulary, width=8, heads=2, blocks=1)
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.3, local_steps=4),
        fl.problems.Supervised(network),
        fl.data.partition(data, fl.data.ByClient()),
        rounds=20,
        batch_size=4,
        eval_every=20,
    )
    assert result.rows[0]["loss"] > 0.5 and result.final["accuracy"] > 0.9
    small = fl.problems.Supervised(fl.models.Transformer(vocabulary=100))
    with raises(DataError, "it is 100, and the rows have 118", "Try vocabulary = 119"):
        fl.simulate(fl.algorithms.FedAvg(lr=0.1), small, fl.data.partition(data, "client"))


@pytest.mark.parametrize(("option", "value"), [("length", 0), ("vocabulary", 2)])
def test_sizes_have_rules(option, value):
    with raises(ParameterError, f"tokeniser: {option} must be a whole number"):
        tokeniser(["a"], **{option: value})
