"""The trials of a sweep on the page: the metric against each parameter, and a table of all."""

from typing import Any

from fedloom.pictures import labels
from fedloom.reports.reading import Study

_MOST_ROWS = 500


def trials(study: Study) -> dict[str, Any] | None:
    """The trials of the first sweep, the best of each method first; None where there was none."""
    if not study.sweeps:
        return None
    found = study.sweeps[0]
    rows, metric = found["trials"], found["metric"]
    fields = [name for name in found["over"] if any(name in row for row in rows)]
    seeds = any(row.get("spread") is not None for row in rows)
    columns = ["method", *fields, metric, *(["spread", "seeds"] if seeds else []), "rounds"]
    return {
        "metric": f"{labels.label(metric)}, held-out rows",
        "fields": fields,
        "methods": [
            {"name": method, "trials": [_point(row, fields, metric) for row in own]}
            for method, own in _by_method(rows).items()
        ],
        "columns": columns,
        "rows": [[_text(row.get(name)) for name in columns] for row in rows[:_MOST_ROWS]],
        "left_out": max(0, len(rows) - _MOST_ROWS),
    }


def _by_method(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


def _point(row: dict[str, Any], fields: list[str], metric: str) -> dict[str, Any]:
    """Where a trial stands: numbers as they are, other values as texts."""
    value = row[metric]
    there = {name: row[name] for name in fields if name in row}
    at = {name: v if _is_number(v) else str(v) for name, v in there.items()}
    return {"at": at, "y": value if value == value else None}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return labels.number(value) if value == value else "diverged"
    return str(value)
