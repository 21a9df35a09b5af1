"""Tables for the terminal: what was found in the files of sites, and how each site fares."""

from collections.abc import Sequence
from typing import Any

from fedloom.cli.output import say, show_table
from fedloom.data.columns import DATE_REASON, FEW_ROWS
from fedloom.measuring.result import Result
from fedloom.preparation import Preparation
from fedloom.preparation.encoding import Column

_SHOWN_WORDS = 6


def show_preparation(result: Result, *, fares: bool = True) -> None:
    """The columns with their types, and a row for each site; nothing where there were no files.

    Without `fares` sites have no results beside them: those of one run of many would mislead.
    """
    if "alignment" in result.about:
        say(result.about["alignment"])
    _show_left_out(result.about.get("left out", {}))
    if "preparation" not in result.about:
        return
    found = Preparation.from_dict(result.about["preparation"])
    show_table([_column(column) for column in found.columns], title="Columns, over all sites")
    _show_left_out(found.left_out)
    classes = "a regression" if found.classes is None else ", ".join(map(str, found.classes))
    say(f"label {found.label!r}: {classes}")
    _show_cases(found)
    results = {row["client"]: row if fares else {} for row in result.clients.to_dicts()}
    show_table(
        [
            {name: _text(value) for name, value in site.items()}
            | {name: value for name, value in results[site["site"]].items() if name != "client"}
            for site in found.sites
        ],
        title="Sites, with their results on test rows where there are any" if fares else "Sites",
    )
    for site in found.sites:
        if site["rows"] == 1:
            say(f"note: {site['site']} has one training row, which its sums give away")


def _show_cases(found: Preparation) -> None:
    """Say where words differ by their case only: they are different words."""
    shown = {
        column.name: [
            w for w, n in zip(column.words, column.counts or (), strict=True) if n >= FEW_ROWS
        ]
        for column in found.columns
        if column.words is not None
    }
    shown[found.label] = [label for label in found.classes or () if isinstance(label, str)]
    for name, words in shown.items():
        for alike in _alike(words):
            say(
                f"note: {', '.join(map(repr, alike))} of {name!r} differ by case only, and count "
                f"as different. Write them alike if they mean the same."
            )


def _alike(words: Sequence[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word.casefold(), []).append(word)
    return [group for group in groups.values() if len(group) > 1]


def _show_left_out(left_out: dict[str, str]) -> None:
    for name, why in left_out.items():
        if why == DATE_REASON:
            remedy = f'Ask for parts in [data]: dates = {{ {name} = ["year", "month"] }}.'
        else:
            remedy = "Name it in [data], in features, to use it."
        say(f"left out {name!r}: {why}. {remedy}")


def _column(column: Column) -> dict[str, Any]:
    row = {"column": column.name, "holds": "numbers" if column.words is None else "words"}
    if column.words is None:
        row["summary"] = f"mean {column.mean:.4g}, deviation {column.deviation:.4g}"
    else:
        counted = zip(column.counts or (), column.words, strict=True)
        pairs = sorted((p for p in counted if p[0] >= FEW_ROWS), key=lambda p: (-p[0], p[1]))
        more, rarer = len(pairs) - _SHOWN_WORDS, len(column.words) - len(pairs)
        row["summary"] = ", ".join(f"{word} {count}" for count, word in pairs[:_SHOWN_WORDS])
        row["summary"] += f" and {more} more" if more > 0 else ""
        row["summary"] += f" and {rarer} rarer word{'s' * (rarer > 1)}" if rarer else ""
    return row | {"missing": column.missing, "features": len(column.features)}


def _text(value: Any) -> Any:
    """Counts by column as a text."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
