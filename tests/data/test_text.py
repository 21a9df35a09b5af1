"""Shakespeare by characters, AG News by words."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.messages import raises
from fedloom.data.text import ALPHABET, characters, read_agnews, read_shakespeare, words
from fedloom.errors import DataError, ParameterError


def speeches(folder, *lines):
    path = folder / "speeches.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def spoken(row):
    return "".join(ALPHABET[i] for i in row)


def test_alphabet_has_86_symbols():
    assert len(ALPHABET) == len(set(ALPHABET)) == 86


def test_rows_are_cut_and_shifted_by_one(tmp_path):
    path = speeches(
        tmp_path,
        {"play": "hamlet", "speaker": "HAMLET", "text": "abcde"},
        {"play": "lear", "speaker": "FOOL", "text": "wxyz"},
        {"play": "hamlet", "speaker": "HAMLET", "text": "fg\thi"},
    )
    found = read_shakespeare(path, length=4)
    assert [spoken(row) for row in found.x] == ["abcd", "e\nfg"]
    assert [spoken(row) for row in found.y] == ["bcde", "\nfg "]
    assert list(found.columns["client"]) == ["hamlet/HAMLET"] * 2
    assert len(found.labels) == 86
    assert found.x.dtype == np.int32
    loudest = read_shakespeare(path, length=2, roles=1)
    assert set(loudest.columns["client"]) == {"hamlet/HAMLET"}
    assert len(loudest) < len(read_shakespeare(path, length=2))
    with raises(DataError, path, "more than 50 characters"):
        read_shakespeare(path)


def test_characters_outside_the_alphabet_read_as_blanks():
    assert spoken(characters("a\u2014b\U0001f600c~")) == "a b c "


@pytest.mark.parametrize("line", ['{"play": "x"}', "[1]", "{"])
def test_malformed_speeches_are_named(tmp_path, line):
    path = tmp_path / "speeches.jsonl"
    path.write_text('{"play": "a", "speaker": "b", "text": "c"}\n' + line)
    with raises(DataError, f"{path}, line 2", "play, speaker and text"):
        read_shakespeare(path)


def basic_english(line):
    """torchtext.data.utils._basic_english_normalize, pattern by pattern."""
    for pattern, replacement in (
        (r"\'", " '  "),
        (r"\"", ""),
        (r"\.", " . "),
        (r"<br \/>", " "),
        (r",", " , "),
        (r"\(", " ( "),
        (r"\)", " ) "),
        (r"\!", " ! "),
        (r"\?", " ? "),
        (r"\;", " "),
        (r"\:", " "),
        (r"\s+", " "),
    ):
        line = re.sub(pattern, replacement, line.lower())
    return line.split()


PIECES = st.sampled_from(
    ["Word", "it's", '"', ".", ",", "(", ")", "!", "?", ";", ":", "<br />", "\t"]
)


@given(st.lists(PIECES | st.text(max_size=3)).map(" ".join))
def test_words_are_those_of_torchtext(text):
    assert words(text) == basic_english(text)


def news(folder, name, *rows):
    path = folder / name
    path.write_text("".join(",".join(f'"{field}"' for field in row) + "\n" for row in rows))
    return path


def test_agnews_numbers_words_by_frequency_in_training_texts(tmp_path):
    train = news(tmp_path, "train.csv", (3, "b a", "a c, its"), (1, "c b", "a"))
    test = news(tmp_path, "test.csv", (4, "z z z z", "a b c"))
    found = read_agnews(train, test, vocabulary=5, length=7)
    # a three times; b and c twice, b first by the alphabet; the rest is unknown.
    np.testing.assert_array_equal(found.x, [[3, 2, 2, 4, 1, 1, 0], [4, 3, 2, 0, 0, 0, 0]])
    np.testing.assert_array_equal(found.test.x, [[1, 1, 1, 1, 2, 3, 4]])
    cut = read_agnews(train, test, vocabulary=5, length=2)
    np.testing.assert_array_equal(cut.x, [[3, 2], [4, 3]])
    np.testing.assert_array_equal(found.y, [2, 0])
    np.testing.assert_array_equal(found.test.y, [3])
    assert list(found.labels) == ["World", "Sports", "Business", "Sci/Tech"]
    assert found.x.dtype == np.int32


def test_malformed_news_is_named(tmp_path):
    good = news(tmp_path, "good.csv", (1, "a", "b"))
    bad = news(tmp_path, "bad.csv", (1, "a", "b"), (5, "a", "b"))
    with raises(DataError, bad, "from 1 to 4", "got 5", "row 2"):
        read_agnews(good, bad)
    ragged = news(tmp_path, "ragged.csv", (1, "a", "b"), (1, "a"))
    with raises(DataError, f"{ragged}, line 2", "3 fields", "got 2"):
        read_agnews(ragged, good)


def test_wrong_options_are_explained(tmp_path):
    path = news(tmp_path, "news.csv", (1, "a", "b"))
    with raises(ParameterError, "agnews", "vocabulary", ">= 3", "got 2"):
        read_agnews(path, path, vocabulary=2)
    with raises(ParameterError, "agnews", "length", ">= 1", "got 0"):
        read_agnews(path, path, length=0)
    with raises(ParameterError, "shakespeare", "length", ">= 1", "got 0"):
        read_shakespeare(path, length=0)
