"""What results look like in a notebook and in a terminal: a table, and pictures."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedloom.data import holdings
from fedloom.data.clients import Clients
from fedloom.metrics.chosen import ROWS, base
from fedloom.pictures import labels
from fedloom.pictures.picture import Picture
from fedloom.pictures.shown import Shown

Rows = Sequence[Mapping[str, Any]]


def partition_plot(clients: Clients) -> Picture:
    """Draw how many rows each client holds: a bar for each, stacked by class.

    Args:
        clients: The clients, from `fl.data.partition` or `fl.data.from_arrays`.
    """
    return Picture(holdings.draw(clients))


def metric_rows(result: Shown) -> list[dict[str, Any]]:
    """A row for each metric at the end of a run: over clients, as a whole, and how it is spread."""
    final = result.final
    parts = {"worst client": "_worst", "worst tenth": "_worst10", "best tenth": "_best10",
             "deviation over clients": "_std"}  # fmt: skip

    def summed_up(name: str) -> dict[str, Any]:
        """What is over the rows of all clients, or of the model, is of the whole."""
        both = name + ROWS in final
        return {
            "mean over clients": final[name] if both else None,
            "as a whole": final[name + ROWS if both else name],
        }

    return [
        {"metric": labels.label(name)}
        | summed_up(name)
        | {part: final.get(name + suffix) for part, suffix in parts.items()}
        for name in labels.metrics(final)
        if name == base(name)
    ]


def caption(result: Shown) -> str:
    """What a run was, in a line."""
    method = result.about["algorithm"].split("(")[0]
    final = result.final
    sent = labels.bytes_text(final["bytes_up"] + final["bytes_down"])
    return (
        f"{method}, {len(result.client_names)} clients, {int(final['round'])} rounds, "
        f"{sent} sent, {labels.number(final['seconds'], 3)} s: {result.status}"
    )


def html_table(rows: Rows, caption: str = "") -> str:
    """A table for a notebook; all text is escaped."""
    names = list(rows[0]) if rows else []
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def rich_table(rows: Rows, caption: str = "") -> Any:
    """A table for a terminal."""
    from rich.table import Table
    from rich.text import Text

    names = list(rows[0]) if rows else []
    table = Table(*names, title=caption or None, title_justify="left", header_style="bold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(name))) for name in names))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return labels.number(value) if isinstance(value, float) else str(value)
