"""Who takes part in a run: settled at its start, and the same to its end."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedloom.errors import FederationError

Facts = dict[str, Any]


class Roster(NamedTuple):
    """Who takes part in a run, in the order that gives everyone its number."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # rows of each class; all rows, of a regression
    shape: tuple[int, ...]
    labels: list[Any] | None


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
    if first["labels"] is None:
        return Roster(names, tuple(tuple(t["counts"]) for t in told), tuple(first["shape"]), None)
    labels = sorted({label for facts in told for label in facts["labels"]})
    tables = [dict(zip(facts["labels"], facts["counts"], strict=True)) for facts in told]
    counts = tuple(tuple(table.get(label, 0) for label in labels) for table in tables)
    return Roster(names, counts, tuple(first["shape"]), labels)
