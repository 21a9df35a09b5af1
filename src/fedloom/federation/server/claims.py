"""What sites say of themselves, checked before it is used.

A site whose answer is invalid is left out and named; the others go on. A valid answer may still be
false: nobody can check how many rows a site has.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from fedloom.errors import WireError
from fedloom.preparation.tables import DATE, EMPTY, KEY, MOST_WORDS, NUMBER, WORD

Facts = dict[str, Any]

MOST_ROWS = 10**7  # of a site; the server keeps a label for each, 8 bytes
MOST_ROWS_OF_ALL = 10**8
MOST_FEATURES = 10**6
MOST_CLASSES = 10**4  # every site's model has outputs for those of all
_LONGEST_TEXT = 16 * 2**20  # bytes of JSON
_LONGEST_NAME = 1000  # characters
_LARGEST = 2**53  # beyond which whole numbers are not told apart
_KINDS = {NUMBER, WORD, EMPTY, KEY, DATE}


class UnfitError(Exception):
    """A site does not fit the others; they go on without it."""

    def __init__(self, site: str, why: str):
        super().__init__(why)
        self.site = site


def table(text: str) -> Any:
    """A table of JSON that is not too long."""
    if len(text) > _LONGEST_TEXT:
        raise WireError(f"it sent a text of {len(text)} bytes, which is too long.")
    try:
        facts = json.loads(text)
        json.dumps(facts, ensure_ascii=False).encode()  # half a character fits into no file
    except (ValueError, RecursionError):
        facts = None
    _need(isinstance(facts, dict), "a table of facts", facts)
    return facts


def of_rows(text: str) -> Facts:
    """How many rows of each class a site has, of which columns."""
    facts = table(text)
    counts, labels = facts.get("counts"), facts.get("labels")
    _need_counts("counts", counts, MOST_ROWS)
    _need(sum(counts) > 0, "at least one row", counts)
    _need_names("features", facts.get("features"), MOST_FEATURES)
    shape = facts.get("shape")
    _need_counts("shape", shape, MOST_FEATURES)
    _need(math.prod(shape) <= 100 * MOST_FEATURES, "a smaller shape", shape)
    _need(isinstance(facts.get("tested"), bool), "whether it has test rows", facts.get("tested"))
    if labels is None:
        _need(len(counts) == 1, "one count where there are no classes", counts)
    else:
        _need(_same_kind(labels) and len(labels) == len(counts), "a count for each class", labels)
        _need(len(labels) <= MOST_CLASSES, f"at most {MOST_CLASSES} classes", len(labels))
        _need(len(set(labels)) == len(labels), "classes that differ", labels)
    known = ("counts", "shape", "features", "labels", "tested")
    return {name: facts[name] for name in known}


def of_table(text: str) -> Facts:
    """What a site proposes for its raw table, and how many rows it has."""
    facts = table(text)
    report, proposal = facts.get("report"), facts.get("proposal")
    _need(isinstance(report, dict), "a report", report)
    counted = [report.get(name) for name in ("rows", "test rows", "without label")]
    _need_counts("counts of rows", counted, MOST_ROWS)
    _need(counted[0] > 0, "at least one row", counted)
    _need(isinstance(report.get("site"), str), "its name", report.get("site"))
    _need(isinstance(proposal, str), "a proposal", proposal)
    said = table(proposal)
    columns, label = said.get("columns"), said.get("label")
    _need(isinstance(columns, dict), "columns", columns)
    _need_names("columns", list(columns), MOST_FEATURES)
    _need_names("ignored columns", said.get("ignored"), MOST_FEATURES)
    _need(said.get("rows") == counted[0], "the same number of rows", said.get("rows"))
    for entry in columns.values():
        kind = entry.get("kind") if isinstance(entry, dict) else None
        _need(isinstance(kind, str) and kind in _KINDS, "a kind of column", entry)
        if entry["kind"] == WORD:
            _need_names("words", entry.get("words"), MOST_WORDS)
        own = entry.get("own")
        _need(kind != NUMBER or (type(own) is int and own in (0, 1, 2, 3)), "if it is a key", entry)
    _need(isinstance(label, dict) and isinstance(label.get("kind"), str), "a label", label)
    classes = label.get("classes")
    listed = classes is None or (_same_kind(classes) and 0 < len(classes) <= MOST_WORDS)
    _need(listed and len(set(classes or ())) == len(classes or ()), "classes that differ", label)
    words = bool(classes) and isinstance(classes[0], str)
    _need(words == (label["kind"] == WORD), "classes that fit the kind of label", label)
    known = ("site", "rows", "test rows", "without label")
    return {"report": {name: report[name] for name in known}, "proposal": proposal}


def of_party(text: str) -> Facts:
    """How many people a party knows."""
    facts = table(text)
    _need_counts("people", [facts.get("people")], MOST_ROWS)
    return {"people": facts["people"]}


def privacy(text: str) -> tuple[float, float] | None:
    """The noise that a site's replies carry, in units of its clip, and its delta."""
    told = table(text).get("privacy")
    if told is None:
        return None
    _need(isinstance(told, list) and len(told) == 2, "a noise and a delta", told)
    positive = all(_is_number(n) and n > 0 for n in told)
    _need(positive and told[1] < 1, "a noise and a delta", told)
    return float(told[0]), float(told[1])


def counts_of(text: str, rows: int, classes: int) -> tuple[int, ...]:
    """How many of its rows are of each class."""
    counts = table(text).get("counts")
    _need_counts("counts", counts, MOST_ROWS)
    _need(len(counts) == classes and sum(counts) == rows, "counts of all its rows", counts)
    return tuple(counts)


def number_of(text: str, name: str, most: int) -> int:
    """One whole number, such as how many features a party has."""
    number = table(text).get(name)
    _need_counts(name, [number], most)
    _need(number > 0, f"some {name}", number)
    return int(number)


def unknown_words(text: str) -> dict[str, int]:
    """How many test rows of a site hold words that no site had in training, by column."""
    unknown = table(text).get("unknown", {})
    _need(isinstance(unknown, dict), "counts by column", unknown)
    _need_names("columns", list(unknown), MOST_FEATURES)
    _need_counts("counts", list(unknown.values()), MOST_ROWS)
    return unknown


def metrics(text: str, due: Iterable[str] = ()) -> dict[str, float]:
    """Metrics that a site has taken; one that it has no rows for is nan."""
    facts = table(text)
    for name in due:
        _need(name in facts, f"{name!r} among the metrics", sorted(facts))
    scored = facts.pop("scored", None)
    for name, value in facts.items():
        fits = value is None or (isinstance(value, float) or _is_number(value))
        _need(fits, f"a number for {name[:40]!r}", value)
    if scored is not None:
        _need_counts("scores", scored, MOST_ROWS)
    if facts.get("rows") is not None:
        _need_counts("rows", [facts["rows"]], MOST_ROWS)
    numbers = {name: math.nan if value is None else float(value) for name, value in facts.items()}
    return numbers


def check_alike(said: Mapping[str, Hashable], why: Callable[[Any, Any], str]) -> None:
    """Raise UnfitError for a site whose answer differs from that of most; `why` says it in words.

    With a tie, the answer that comes first counts.
    """
    for usual, _ in Counter(said.values()).most_common(1):
        for name, own in said.items():
            if own != usual:
                raise UnfitError(name, why(own, usual))


def _need(holds: bool, what: str, got: object) -> None:
    if not holds:
        raise WireError(f"{what} was due, and it said something else: {repr(got)[:80]}.")


def _need_counts(what: str, given: Any, most: int) -> None:
    fits = isinstance(given, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= most for n in given
    )
    _need(fits and sum(given) <= most, f"{what}, whole numbers up to {most}", given)


def _need_names(what: str, given: Any, most: int) -> None:
    fits = isinstance(given, list) and len(given) <= most
    named = fits and all(isinstance(n, str) and len(n) <= _LONGEST_NAME for n in given)
    _need(named and len(set(given)) == len(given), f"{what}, a list of names", given)


def _is_number(value: Any) -> bool:
    """Whether this is a finite float, or a whole number that a float holds exactly."""
    whole = type(value) is int and abs(value) <= _LARGEST
    return whole or (isinstance(value, float) and math.isfinite(value))


def _same_kind(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    numbers = all(_is_number(v) for v in values)
    return numbers or all(isinstance(v, str) and len(v) <= _LONGEST_NAME for v in values)
