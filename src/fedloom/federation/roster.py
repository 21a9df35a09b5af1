"""The roster of a run: who takes part. It is settled at the start and never changes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedloom.data.clients import Clients
from fedloom.data.parties import Parties
from fedloom.errors import RefusedError, WireError
from fedloom.exchange.expected import bare_clients, bare_parties
from fedloom.federation.server.claims import MOST_ROWS, MOST_ROWS_OF_ALL, check_alike

Facts = dict[str, Any]


class Roster(NamedTuple):
    """Sites with rows of their own, in the order that numbers them."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # rows of each class; all rows, of a regression
    shape: tuple[int, ...]
    labels: list[Any] | None
    tested: bool = False  # whether any site has test rows; then one without has no metrics
    features: tuple[str, ...] = ()  # what they are called, where tables were encoded beforehand

    def bare(self) -> Clients:
        """The sites, without their rows."""
        labels = None if self.labels is None else np.array(self.labels)
        return bare_clients(self.names, self.counts, tuple(self.shape), labels)


class PartyRoster(NamedTuple):
    """Parties with columns of the same people, in the order that numbers them."""

    names: tuple[str, ...]
    rows: int  # people whom the model is trained on
    tested: int  # and people who are held out
    classes: int  # 0: a regression
    widths: tuple[int, ...] = ()  # features of each party; the label party alone knows all of them

    def bare(self) -> Parties:
        """The parties, without their columns and labels."""
        return bare_parties(self.names, self.widths, self.rows, self.tested, self.classes)


def check_roster(facts: Facts) -> None:
    """Refuse a roster that makes no sense, or that would take more memory than there is."""
    names, id, counts = facts.get("names"), facts.get("id"), facts.get("counts", [])
    named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    tables = isinstance(counts, list) and all(isinstance(own, list) for own in counts)
    if (
        not named
        or not tables
        or len(set(facts["names"])) < len(facts["names"])
        or type(id) is not int
        or not 0 <= id < len(facts["names"])
        or not _fit_memory([n for own in counts for n in own])
    ):
        raise WireError("a list of sites with their rows was due, and something else came.")


def check_numbers_of_rows(id: object, rows: Any, own: int) -> None:
    """Refuse numbers of rows of all sites that make no sense, or are not this site's own."""
    if not (
        isinstance(rows, list)
        and _fit_memory(rows)
        and type(id) is int
        and 0 <= id < len(rows)
        and rows[id] == own
    ):
        raise WireError("how many rows each site has was due, and something else came.")


def _fit_memory(numbers: list[Any]) -> bool:
    """Whether these are numbers of rows for which there is room."""
    whole = all(type(n) is int and 0 <= n <= MOST_ROWS for n in numbers)
    return whole and sum(numbers) <= MOST_ROWS_OF_ALL


def check_listed(
    roster: Roster, id: int, counts: Sequence[int], labels: list[Any] | None, shape: tuple[int, ...]
) -> None:
    """A site checks that the roster has its own counts, since weights are made of them.

    All counts must be of classes that are listed once: any other would add to a site's weight, up
    to where a sum is that site's reply alone, and no site would know them for its own.
    """
    known = [None] if roster.labels is None else roster.labels
    fits = len(roster.counts) == len(roster.names) and len(set(known)) == len(known)
    fits = fits and all(len(row) == len(known) for row in roster.counts)
    theirs = dict(zip(known, roster.counts[id], strict=True)) if fits else {}
    own = dict(zip(labels or [None], counts, strict=True))
    rows = [{label: n for label, n in told.items() if n} for told in (own, theirs)]
    if not fits or rows[0] != rows[1] or tuple(roster.shape) != shape:
        raise RefusedError(
            "the server says that this site has other numbers of rows than the site itself said. "
            "The server, or its checkpoint, is wrong."
        )


def roster_of(there: Mapping[str, Facts]) -> Roster:
    """The sites in their order; raises UnfitError for one whose columns are not those of most."""
    names, told = tuple(there), list(there.values())
    check_alike(
        {name: (*facts["features"], *facts["shape"]) for name, facts in there.items()},
        lambda own, usual: (
            f"its columns are not those of most sites; see {_odd_column(own, usual)!r}. Name the "
            f"columns with features in [data], and the words of columns with categories."
        ),
    )
    check_alike(
        {name: _kind(facts["labels"]) for name, facts in there.items()},
        lambda own, usual: (
            f"its labels are {own}, and those of most sites {usual}. State it with regression in "
            f"[data], or write the classes alike."
        ),
    )
    tested, shape = any(facts["tested"] for facts in told), tuple(told[0]["shape"])
    features = tuple(told[0]["features"])
    if told[0]["labels"] is None:
        counts = tuple(tuple(facts["counts"]) for facts in told)
        return Roster(names, counts, shape, None, tested, features)
    labels = sorted({label for facts in told for label in facts["labels"]})
    tables = [dict(zip(facts["labels"], facts["counts"], strict=True)) for facts in told]
    counts = tuple(tuple(table.get(label, 0) for label in labels) for table in tables)
    return Roster(names, counts, shape, labels, tested, features)


def _odd_column(own: Sequence[Any], usual: Sequence[Any]) -> str:
    """A column that is in only one of two lists, without any word of it."""
    odd = [name for name in own if name not in usual] + [name for name in usual if name not in own]
    return str((odd or ["their order"])[0]).partition("=")[0]


def _kind(labels: list[Any] | None) -> str:
    if labels is None:
        return "numbers to predict"
    return "words" if labels and isinstance(labels[0], str) else "numbered classes"


def packed(people: np.ndarray) -> bytes:
    """Ids as they travel."""
    return json.dumps(people.tolist()).encode()


def unpacked(body: bytes) -> np.ndarray:
    """Ids that have travelled; anything else is refused."""
    try:
        people = json.loads(body)
    except (ValueError, RecursionError):
        people = None
    if not isinstance(people, list) or not all(isinstance(id, str) for id in people):
        raise WireError("a list of ids was due, and something else came.")
    return np.array(people, str)
