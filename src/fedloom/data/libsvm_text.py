"""LIBSVM text taken apart, some megabytes at a time, by whole arrays.

NumPy finds where words begin and which of them stand first in a line; Polars' reader of CSV makes
numbers of them, a word a line and a colon between its two fields. It says neither the line nor the
rule when something is wrong, so only then is that part of the text gone through line by line.
"""

import io
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

import numpy as np

from fedloom.errors import DataError

LONGEST_LINE = 2**26  # bytes; a line is held as a whole
LONGEST_NUMBER = 1000  # characters; the exact decimals of a double have up to 770 digits
WIDEST_UNTOLD = 10**8  # features; what is made for each feature would fill memory for one digit
_LARGEST_INDEX = 2**31 - 1
_SHOWN = 60  # characters of what is wrong
_BLANKS = b" \t\r\v\f"
_ONE_A_LINE = bytes.maketrans(_BLANKS, b"\n" * len(_BLANKS))
_COMMENT = re.compile(rb"#[^\n]*")
_QUERY = re.compile(rb"(?<=[ \t])qid:\S*")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Part(NamedTuple):
    """Some lines: a label for each, how many pairs it has, and all pairs in turn."""

    labels: np.ndarray
    counts: np.ndarray
    indices: np.ndarray  # from 0
    values: np.ndarray


def parts(source: object, blocks: Iterable[bytes], n_features: int | None) -> Iterator[Part]:
    """What blocks of a text say; a line may go on from one block to the next.

    Args:
        source: Where the text comes from, for messages.
        blocks: The text, piece by piece.
        n_features: The largest index that may occur; None: `WIDEST_UNTOLD`.

    Raises:
        DataError: A line breaks a rule; the message names it.
    """
    rest, line = b"", 1
    for block in blocks:
        text = rest + block
        end = text.rfind(b"\n") + 1
        text, rest = text[:end], text[end:]
        if len(rest) > LONGEST_LINE:
            number = line + text.count(b"\n")
            raise DataError(
                f"{source}, line {number}: a line must not be longer than {LONGEST_LINE} bytes; "
                f"this one is. Check that the file is LIBSVM text."
            )
        if text:
            yield _part(source, text, line, n_features)
            line += text.count(b"\n")
    if rest:
        yield _part(source, rest, line, n_features)


def _part(source: object, text: bytes, line: int, n_features: int | None) -> Part:
    """Whole lines, of which the first has this number."""
    plain = _QUERY.sub(b"", _COMMENT.sub(b"", text)) if b"#" in text or b"qid:" in text else text
    found = _read(plain, n_features)
    if found is None:
        _explain(source, plain, line, n_features)
    return found


def _read(text: bytes, n_features: int | None) -> Part | None:
    """The numbers in whole lines; None where a rule is broken."""
    import polars as pl

    letters = np.frombuffer(text, np.uint8)
    if letters.max(initial=0) > 127:  # no number has such a letter, and Polars wants UTF-8
        return None
    blank = (letters == ord(" ")) | (letters - np.uint8(9) <= 4)  # tab to carriage return
    edges = np.diff(blank.view(np.int8), prepend=1, append=1)
    begin, end = np.flatnonzero(edges == -1), np.flatnonzero(edges == 1)
    lines = np.cumsum(letters == ord("\n"), dtype=np.int32)[begin]
    first = np.diff(lines, prepend=-1) != 0  # a label; all others are pairs, with one colon each
    pairs = ~first
    with_colon = np.searchsorted(begin, np.flatnonzero(letters == ord(":")), "right") - 1
    if (end - begin).max(initial=0) > LONGEST_NUMBER:
        return None
    if not np.array_equal(with_colon, np.flatnonzero(pairs)):
        return None
    ended = end[end < len(blank)]  # a text may end with its last word
    if np.count_nonzero(blank) > len(ended):  # of blanks beside each other, the first
        blank[ended] = False
        text = letters[~blank].tobytes()
    # One line more at the beginning says that there are two columns, whatever the first word is.
    one_a_line = io.BytesIO(b"0:0\n" + text.translate(_ONE_A_LINE))
    schema = {"before": pl.String, "after": pl.String}
    frame = pl.read_csv(
        one_a_line, separator=":", has_header=False, schema=schema, quote_char=None
    )[1:]
    before, after = frame["before"], frame["after"].filter(pairs)
    labels = before.filter(first).cast(pl.Float64, strict=False)
    indices = before.filter(pairs).cast(pl.Int32, strict=False)
    values = after.cast(pl.Float64, strict=False)
    if labels.null_count() or indices.null_count() or values.null_count():
        return None
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=len(first)) - 1
    made = Part(labels.to_numpy(), counts, indices.to_numpy() - 1, values.to_numpy())
    return made if _holds(made, n_features) else None


def _holds(part: Part, n_features: int | None) -> bool:
    """Whether numbers are finite, and indices ascend within a line and within their bounds."""
    if not (np.isfinite(part.labels).all() and np.isfinite(part.values).all()):
        return False
    if part.indices.min(initial=0) < 0 or part.indices.max(initial=-1) >= _widest(n_features):
        return False
    ascends = np.diff(part.indices) > 0
    breaks = np.cumsum(part.counts)[:-1]  # between two lines indices begin again
    ascends[breaks[(breaks > 0) & (breaks < len(part.indices))] - 1] = True
    return bool(ascends.all())


def _widest(n_features: int | None) -> int:
    return WIDEST_UNTOLD if n_features is None else n_features


def _explain(source: object, text: bytes, line: int, n_features: int | None) -> NoReturn:
    """Raise the error that names the first line which breaks a rule."""
    for number, content in enumerate(text.split(b"\n"), start=line):
        fault = _fault(content.split(), n_features)
        if fault is not None:
            rule, found, advice = fault
            shown = found[:_SHOWN].decode(errors="replace")
            more = "" if len(found) <= _SHOWN else f" and {len(found) - _SHOWN} more characters"
            raise DataError(f"{source}, line {number}: {rule}; got {shown!r}{more}. {advice}")
    raise DataError(f"{source}: the numbers cannot be read. Check that the file is LIBSVM text.")


def _fault(fields: list[bytes], n_features: int | None) -> tuple[str, bytes, str] | None:
    """The first rule that a line breaks: the rule, what was found, what to do."""
    if fields and not _is_finite(fields[0]):
        return "a label must be a finite number", fields[0], "Correct the label."
    previous = 0
    for pair in fields[1:]:
        index, colon, value = pair.partition(b":")
        if not colon:
            return "a feature must be written index:value", pair, "Add the colon."
        if not (index.isdigit() and len(index) <= LONGEST_NUMBER):
            return _no_index(pair)
        place = int(index)
        if not 1 <= place <= _LARGEST_INDEX:
            return _no_index(pair)
        if place <= previous:
            advice = f"It follows index {previous}: sort them."
            return "indices must ascend within a line", pair, advice
        if place > _widest(n_features):
            rule = f"an index must not exceed {'' if n_features is None else 'n_features = '}"
            advice = "Correct it, or say how many features there are with n_features."
            return f"{rule}{_widest(n_features)}", pair, advice
        if not _is_finite(value):
            advice = "Correct the value, or leave the pair out."
            return "a value must be a finite number", pair, advice
        previous = place
    return None


def _no_index(pair: bytes) -> tuple[str, bytes, str]:
    return f"an index must be a whole number from 1 to {_LARGEST_INDEX}", pair, "Count from 1."


def _is_finite(text: bytes) -> bool:
    return (
        len(text) <= LONGEST_NUMBER
        and _NUMBER.fullmatch(text) is not None
        and math.isfinite(float(text))
    )
