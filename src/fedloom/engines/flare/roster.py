"""Who takes part in a run: settled at its start, and the same to its end."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedloom.data.clients import Clients
from fedloom.data.parties import Parties
from fedloom.engines.outlines import bare_clients, bare_parties
from fedloom.errors import FederationError, WireError

Facts = dict[str, Any]


class Roster(NamedTuple):
    """Sites with rows of their own, in the order that gives everyone its number."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # rows of each class; all rows, of a regression
    shape: tuple[int, ...]
    labels: list[Any] | None
    tested: bool = False  # whether any site has test rows; then one without has no metrics

    def bare(self) -> Clients:
        """The sites, without their rows."""
        labels = None if self.labels is None else np.array(self.labels)
        return bare_clients(self.names, self.counts, tuple(self.shape), labels)


class PartyRoster(NamedTuple):
    """Parties with columns of the same people, in the order that gives everyone its number."""

    names: tuple[str, ...]
    rows: int  # people whom the model is trained on
    tested: int  # and people who are held out
    classes: int  # 0: a regression
    widths: tuple[int, ...] = ()  # features of each party; the label party alone knows all of them

    def bare(self) -> Parties:
        """The parties, without their columns and labels."""
        return bare_parties(self.names, self.widths, self.rows, self.tested, self.classes)


def roster_of(there: Mapping[str, Facts]) -> Roster:
    """The sites in their order; their columns must be the same."""
    names = tuple(there)
    first = there[names[0]]
    for name in names:
        if there[name]["features"] != first["features"] or there[name]["shape"] != first["shape"]:
            raise FederationError(
                f"{name} has the columns {', '.join(there[name]['features'])}; {names[0]} has "
                f"{', '.join(first['features'])}. Name the columns with features in [data], and "
                f"the categories of words with categories."
            )
        if (there[name]["labels"] is None) != (first["labels"] is None):
            raise FederationError(
                f"the labels of {name} and {names[0]} must both be classes, or both be numbers. "
                f"State it with regression in [data]."
            )
    told = [there[name] for name in names]
    tested = any(facts["tested"] for facts in told)
    if first["labels"] is None:
        counts = tuple(tuple(facts["counts"]) for facts in told)
        return Roster(names, counts, tuple(first["shape"]), None, tested)
    labels = sorted({label for facts in told for label in facts["labels"]})
    tables = [dict(zip(facts["labels"], facts["counts"], strict=True)) for facts in told]
    counts = tuple(tuple(table.get(label, 0) for label in labels) for table in tables)
    return Roster(names, counts, tuple(first["shape"]), labels, tested)


def packed(people: np.ndarray) -> bytes:
    """Ids as they travel."""
    return json.dumps(people.tolist()).encode()


def unpacked(body: bytes) -> np.ndarray:
    """Ids that have travelled; anything else is refused."""
    try:
        people = json.loads(body)
    except ValueError:
        people = None
    if not isinstance(people, list) or not all(isinstance(id, str) for id in people):
        raise WireError("a list of ids was due, and something else came.")
    return np.array(people, str)
