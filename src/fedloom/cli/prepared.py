"""What was found in the files of sites, and how each site fares: tables for the terminal."""

from typing import Any

from fedloom.cli.output import show_table
from fedloom.measuring.result import Result
from fedloom.preparation import Preparation
from fedloom.preparation.encoding import Column

_SHOWN_WORDS = 6


def show_preparation(result: Result, *, fares: bool = True) -> None:
    """The columns with their types, and a row for each site; nothing where there were no files.

    Without `fares` sites have no results beside them: those of one run of many would mislead.
    """
    if "alignment" in result.about:
        print(result.about["alignment"])
    _show_left_out(result.about.get("left out", {}))
    if "preparation" not in result.about:
        return
    found = Preparation.from_dict(result.about["preparation"])
    show_table([_column(column) for column in found.columns], title="Columns, over all sites")
    _show_left_out(found.left_out)
    classes = "a regression" if found.classes is None else ", ".join(map(str, found.classes))
    print(f"label {found.label!r}: {classes}")
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
            print(f"note: {site['site']} has one training row, which its sums give away")


def _show_left_out(left_out: dict[str, str]) -> None:
    for name, why in left_out.items():
        print(f"left out {name!r}: {why}. Name it in [data], in features or dates, to use it.")


def _column(column: Column) -> dict[str, Any]:
    row = {"column": column.name, "holds": "numbers" if column.words is None else "words"}
    if column.words is None:
        row["summary"] = f"mean {column.mean:.4g}, deviation {column.deviation:.4g}"
    else:
        pairs = sorted(
            zip(column.counts or (), column.words, strict=True), key=lambda p: (-p[0], p[1])
        )
        more = len(pairs) - _SHOWN_WORDS
        row["summary"] = ", ".join(f"{word} {count}" for count, word in pairs[:_SHOWN_WORDS])
        row["summary"] += f" and {more} more" if more > 0 else ""
    return row | {"missing": column.missing, "features": len(column.features)}


def _text(value: Any) -> Any:
    """Counts by column as a text."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
