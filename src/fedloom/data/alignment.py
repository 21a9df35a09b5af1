"""Which rows of the parties are the same person: a join on an id, in private or in plain.

In private, by private set intersection (the `psi` extra, OpenMined's library): the label party
learns which of its ids every other party has, and the others learn nothing in that step. It then
tells them the ids that all have in common, in the order of the rows to come. Any join discloses who
is in common; the other ids stay with their party.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedloom.data.intersection import Asking, reply_to
from fedloom.errors import DataError
from fedloom.parameters import check, one_of


class Alignment(NamedTuple):
    """The rows of each party that belong together, and what the join left out."""

    rows: dict[str, np.ndarray]  # for each party, its row of each common person
    ids: np.ndarray  # the common ids, in the same order
    dropped: dict[str, int]  # how many rows of each party have no counterpart everywhere

    def __repr__(self) -> str:
        return f"Alignment({self.report()})"  # ids are nobody's business in a notebook

    @property
    def size(self) -> int:
        """How many people all parties have."""
        return len(self.ids)

    def report(self) -> str:
        """The size of the intersection and what was dropped, in words."""
        return joined_report(self.size, self.dropped)


def joined_report(people: int, dropped: Mapping[str, int]) -> str:
    """How many people a join kept, and how many rows it dropped at each of who took part."""
    lost = ", ".join(f"{count} rows of {name}" for name, count in dropped.items())
    return f"{people} people known to all; dropped: {lost}"


def align(ids: Mapping[str, Any], *, how: str = "private") -> Alignment:
    """Find the people whom all parties have, by their ids.

    Args:
        ids: Each party's column of ids, by the party's name, the label party first. No id may
            occur twice in a column.
        how: "private" for private set intersection, or "plain" if ids may be pooled.

    Returns:
        Which rows to take at each party, in which order: `x[alignment.rows[name]]`.
    """
    check("align", "how", how, one_of("private", "plain"))
    columns = {name: texts(name, column) for name, column in ids.items()}
    if len(columns) < 2:
        raise DataError(f"align needs the ids of at least two parties; got {len(columns)}.")
    (hub, own), *others = columns.items()
    common = np.ones(len(own), bool)
    for _, column in others:
        common &= np.isin(own, column) if how == "plain" else _in_private(own, column)
    kept = own[common]
    if not len(kept):
        raise DataError(f"the parties {', '.join(columns)} have no id in common. Check the column.")
    rows = {hub: np.flatnonzero(common)}
    rows |= {name: places(column, kept) for name, column in others}
    dropped = {name: len(column) - len(kept) for name, column in columns.items()}
    return Alignment(rows, np.asarray(ids[hub])[common], dropped)


def _in_private(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    asking = Asking(own)
    return asking.found(reply_to(asking.request(), other))


def places(column: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """In which row of a column each of the wanted ids stands; all of them must be there."""
    order = np.argsort(column)
    return order[np.searchsorted(column[order], wanted)]


def texts(name: str, column: Any) -> np.ndarray:
    """A party's ids as texts, without blanks around them; each may occur once."""
    entries = ["" if entry is None or entry != entry else str(entry).strip() for entry in column]
    nobody = entries.count("")
    if nobody:
        raise DataError(
            f"party {name!r}: every row must have an id; {nobody} have none. Fill them in, or drop "
            f"these rows."
        )
    texts = np.asarray(entries)
    values, counts = np.unique(texts, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"party {name!r}: every id must occur once; {str(values[counts > 1][0])!r} occurs "
            f"{counts.max()} times. Drop the repeated rows first."
        )
    return texts
