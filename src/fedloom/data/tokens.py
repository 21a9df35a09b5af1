"""Your own texts as rows of whole numbers: by bytes, or by the words of the training rows.

Nothing is downloaded. Number 0 is padding in both; by words, 1 is any word that is not known.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.data.dialects import Dialect
from fedloom.data.folders import labelled
from fedloom.data.frames import read_frame
from fedloom.data.packed import bare_name, read_bytes
from fedloom.data.table_features import raw
from fedloom.data.text import PADDING, number_words, word_rows, words
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.parameters import at_least, check, one_of

if TYPE_CHECKING:
    import polars as pl

_BYTES = 256
_FIRST_WORD = 2
_kinds = one_of("words", "bytes")


@dataclasses.dataclass(frozen=True)
class Tokeniser:
    """Turns texts into rows. After `fl.data.load` of texts, `Dataset.tokeniser` is the one used."""

    length: int  # of a row: longer texts are cut, shorter ones padded with 0
    words: tuple[str, ...] | None  # those that have numbers, from 2 on; None: bytes, from 1 on

    @property
    def vocabulary(self) -> int:
        """How many different numbers rows may hold: the least `vocabulary` of a network."""
        return 1 + _BYTES if self.words is None else _FIRST_WORD + len(self.words)

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        """One row of whole numbers for each text."""
        if self.words is not None:
            numbers = {word: number for number, word in enumerate(self.words, _FIRST_WORD)}
            return word_rows([words(text) for text in texts], numbers, self.length)
        rows = np.full((len(texts), self.length), PADDING, np.int32)
        for row, text in zip(rows, texts, strict=True):
            found = np.frombuffer(text.encode()[: self.length], np.uint8)
            row[: len(found)] = found.astype(np.int32) + 1
        return rows

    def __repr__(self) -> str:
        """How it cuts, and none of the words, which are of somebody's texts."""
        kind = "bytes" if self.words is None else f"{len(self.words)} words"
        return f"Tokeniser({kind}, rows of {self.length})"


def tokeniser(
    texts: Sequence[str], *, tokens: str = "words", vocabulary: int = 20_000, length: int = 128
) -> Tokeniser:
    """Make a tokeniser. With "words" it learns the most frequent ones from training texts.

    Args:
        texts: The training texts.
        tokens: "words", in lower case and without most punctuation, or "bytes" of UTF-8.
        vocabulary: For words, the largest number of different numbers in rows: padding, any other
            word, and the most frequent words.
        length: The number of words or bytes in a row.
    """
    check("tokeniser", "tokens", tokens, _kinds)
    check("tokeniser", "vocabulary", vocabulary, at_least(_FIRST_WORD + 1))
    check("tokeniser", "length", length, at_least(1))
    if tokens == "bytes":
        return Tokeniser(length, None)
    return Tokeniser(length, tuple(number_words(map(words, texts), vocabulary)))


def read_text_table(
    path: Path,
    *,
    text: str,
    label: str,
    tokens: str = "words",
    vocabulary: int = 20_000,
    length: int = 128,
    regression: bool | None = None,
    test: Path | None = None,
    encoding: str | None = None,
) -> Dataset:
    """A Dataset of texts from a column of a CSV or Parquet file; other columns divide the rows.

    Args:
        path: The training rows.
        text: The column with the texts.
        label: The column to predict.
        tokens: Of texts: "words" of the training rows, or "bytes".
        vocabulary: Of words: how many numbers there are at most, with padding and unknown words.
        length: The number of words or bytes to which a text is padded or cut.
        regression: Whether the labels are numbers to predict; by default when some is not whole.
        test: The test rows.
        encoding: Of a CSV file that is not UTF-8.
    """

    def read(path: Path) -> "pl.DataFrame":
        frame = read_frame(path, dialect=Dialect(encoding=encoding))
        for wanted in (text, label):
            if wanted not in frame.columns:
                raise DataError(
                    f"{path}: the table must have a column {wanted!r}; it has {frame.width} "
                    f"others. {closest(wanted, frame.columns)}"
                )
        if frame.height == 0 or frame[label].null_count():
            raise DataError(
                f"{path}: there must be rows, and a label in each; {frame[label].null_count()} of "
                f"{frame.height} rows have none in {label!r}. Remove or complete them."
            )
        return frame

    def rows(path: Path, frame: "pl.DataFrame", known: Dataset | None) -> Dataset:
        numbers = True if known and known.labels is None else regression
        classes = None if known is None else known.labels
        y, classes = labels.encode(
            raw(frame[label]), source=path, known=classes, regression=numbers
        )
        columns = {series.name: raw(series) for series in frame.drop(text, label)}
        x = how.rows(_texts(frame[text]))
        title = name if known is None else f"{name} test"
        return Dataset(title, x, y, classes, columns, tokeniser=how)

    frame, name = read(path), bare_name(path).rpartition(".")[0]
    how = tokeniser(_texts(frame[text]), tokens=tokens, vocabulary=vocabulary, length=length)
    made = rows(path, frame, None)
    return made if test is None else dataclasses.replace(made, test=rows(test, read(test), made))


def read_text_folder(
    folder: Path,
    *,
    tokens: str = "words",
    vocabulary: int = 20_000,
    length: int = 128,
    test: Path | None = None,
) -> Dataset:
    """A Dataset of the .txt files in folders CLASS/ or CLIENT/CLASS/, a text for each file.

    Args:
        folder: The training texts, in UTF-8.
        tokens: Of texts: "words" of the training rows, or "bytes".
        vocabulary: Of words: how many numbers there are at most, with padding and unknown words.
        length: The number of words or bytes to which a text is padded or cut.
        test: A folder with the test texts, laid out as the other.
    """
    found = labelled(folder, (".txt",))
    texts = [_read_text(path) for path in found.paths]
    how = tokeniser(texts, tokens=tokens, vocabulary=vocabulary, length=length)
    made = found.dataset(folder.name, how.rows(texts), None)
    made = dataclasses.replace(made, tokeniser=how)
    if test is None:
        return made
    others = labelled(test, (".txt",))
    x = how.rows([_read_text(path) for path in others.paths])
    return dataclasses.replace(made, test=others.dataset(f"{folder.name} test", x, made))


def _texts(series: "pl.Series") -> list[str]:
    """A row without a text has no words, and is padding."""
    import polars as pl

    return series.cast(pl.String, strict=False).fill_null("").to_list()


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: a text must be in UTF-8; byte {error.start + 1} is not. Save it as UTF-8."
        ) from error
