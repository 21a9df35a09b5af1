"""Text as whole numbers: Shakespeare by characters, AG News by words."""

import collections
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.frames import read_frame
from fedloom.data.packed import read_bytes
from fedloom.errors import DataError
from fedloom.parameters import at_least, check

# The 86 symbols of the usual federated Shakespeare task. Any other character reads as a blank.
ALPHABET = (
    "\n\r !\"#$%&'()*,-./0123456789:;?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz"
)
TOPICS = np.array(["World", "Sports", "Business", "Sci/Tech"])
PADDING, UNKNOWN = 0, 1
_FIRST_WORD = 2


def read_shakespeare(path: Path, *, length: int = 50, roles: int | None = None) -> Dataset:
    """Every role's speeches, to predict each next character.

    The speeches of a role are joined by line ends and cut into rows of `length` characters. Row k
    of x begins at character k * length; y is x one character later. What is left at the end of a
    role is dropped, and so is a role with no more than `length` characters.

    Args:
        path: Lines of JSON with `play`, `speaker` and `text`, plain or compressed.
        length: The number of characters in a row.
        roles: How many roles to keep, those with the most to say; None: all.
    """
    check("shakespeare", "length", length, at_least(1))
    check("shakespeare", "roles", roles, at_least(1).or_none("all"))
    speeches: dict[str, list[str]] = collections.defaultdict(list)
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            speech = json.loads(line)
            if not isinstance(speech["text"], str):
                raise TypeError("text must be a text")
            speeches[f"{speech['play']}/{speech['speaker']}"].append(speech["text"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number}: a line must be a JSON object with play, speaker and text; "
                f"got {line[:40]!r} ({error!r}). Get a fresh copy of the file."
            ) from error
    texts = {role: characters("\n".join(lines)) for role, lines in speeches.items()}
    loudest = sorted(texts, key=lambda role: len(texts[role]), reverse=True)[:roles]
    texts = {role: texts[role] for role in texts if role in set(loudest)}
    rows = {role: (len(ids) - 1) // length for role, ids in texts.items() if len(ids) > length}
    if not rows:
        raise DataError(
            f"{path}: some role must have more than {length} characters; none has. "
            f"Make length smaller."
        )

    def cut(start: int) -> np.ndarray:
        parts = [texts[role][start : start + count * length] for role, count in rows.items()]
        return np.concatenate(parts).reshape(-1, length)

    return Dataset(
        "shakespeare",
        cut(0),
        cut(1),
        np.array(list(ALPHABET)),
        {"client": np.repeat(list(rows), list(rows.values()))},
    )


def characters(text: str) -> np.ndarray:
    """The places of the characters in ALPHABET."""
    return _places()[np.frombuffer(text.encode("utf-32-le"), np.uint32)]


@functools.cache
def _places() -> np.ndarray:
    """For each code point of Unicode its place in ALPHABET."""
    places = np.full(sys.maxunicode + 1, ALPHABET.index(" "), np.int32)
    places[[ord(symbol) for symbol in ALPHABET]] = np.arange(len(ALPHABET))
    return places


def read_agnews(train: Path, test: Path, *, vocabulary: int = 20_000, length: int = 64) -> Dataset:
    """AG News: the topic of a title and the sentences below it, as word numbers.

    Args:
        train: CSV with class 1 to 4, title and description, without a header.
        test: The same, for the test rows.
        vocabulary: How many numbers there are: 0 is padding, 1 any word that is not among the
            most frequent ones of the training texts, and those follow.
        length: The number of words to which a text is padded or cut.
    """
    check("agnews", "vocabulary", vocabulary, at_least(_FIRST_WORD + 1))
    check("agnews", "length", length, at_least(1))
    texts, y = _read_news(train)
    test_texts, test_y = _read_news(test)
    numbers = number_words(texts, vocabulary)
    held_out = Dataset("agnews test", word_rows(test_texts, numbers, length), test_y, TOPICS)
    return Dataset("agnews", word_rows(texts, numbers, length), y, TOPICS, test=held_out)


def words(text: str) -> list[str]:
    """The words of a text, as torchtext's `basic_english` tokeniser finds them."""
    return text.lower().replace("<br />", " ").translate(_SPACING).split()


def number_words(texts: Iterable[Sequence[str]], size: int) -> dict[str, int]:
    """Numbers for the most frequent words; where two are as frequent, for the first in order."""
    counts = collections.Counter(word for text in texts for word in text)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ranked[: size - _FIRST_WORD], _FIRST_WORD)}


def word_rows(texts: Sequence[Sequence[str]], numbers: dict[str, int], length: int) -> np.ndarray:
    """One row of word numbers for each text, padded or cut to `length`."""
    rows = np.full((len(texts), length), PADDING, np.int32)
    for row, text in zip(rows, texts, strict=True):
        found = [numbers.get(word, UNKNOWN) for word in text[:length]]
        row[: len(found)] = found
    return rows


# Stops, commas and the like become words of their own; quotes, colons and semicolons go.
_SPACING = str.maketrans(
    {"'": " '  ", '"': "", ";": " ", ":": " "} | {mark: f" {mark} " for mark in ".,()!?"}
)


def _read_news(path: Path) -> tuple[list[list[str]], np.ndarray]:
    import polars as pl

    frame = read_frame(path, names=("class", "title", "description"))
    topics = frame["class"].cast(pl.Int64, strict=False)
    legal = topics.is_between(1, len(TOPICS)).fill_null(False).to_numpy()
    if not legal.all():
        row = int(legal.argmin())
        raise DataError(
            f"{path}: a class must be from 1 to {len(TOPICS)}; got {frame['class'][row]!r} in row "
            f"{row + 1}. Get a fresh copy of the file."
        )
    joined = frame.select(pl.concat_str(pl.exclude("class").fill_null(""), separator=" "))
    return [words(text) for text in joined.to_series()], topics.to_numpy() - 1
