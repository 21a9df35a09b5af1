"""The coefficients of linear models on tables of sites, as a picture and a table show them."""

from typing import Any

from fedloom.deploy.linear import AT, INTERCEPT
from fedloom.experiments.explaining import NOTED
from fedloom.pictures.labels import number
from fedloom.reports.reading import Study

Row = dict[str, Any]

_MOST = 40  # features that a picture shows, the largest; the table has more
_MOST_SITES = 30  # whose own marks a picture shows


def coefficients(study: Study) -> dict[str, Any] | None:
    """A panel for each method, of its first seed; None where no model has coefficients."""
    panels = [
        _panel(name, runs[0].about[NOTED])
        for name, runs in study.methods.items()
        if runs[0].about.get(NOTED)
    ]
    return {"panels": panels} if panels else None


def _panel(name: str, rows: list[Row]) -> dict[str, Any]:
    features = [row for row in rows if row["feature"] != INTERCEPT]
    largest = sorted(features, key=lambda row: -abs(row["coefficient"]))[:_MOST]
    sites = [key for key in rows[0] if key.startswith(AT)]
    ratio = next((key for key in rows[0] if key.endswith(" ratio")), None)
    # The smallest first: a picture puts the last on top.
    shown = sorted(largest, key=lambda row: row["coefficient"])
    return {
        "name": name,
        "of": len(features),
        "features": [_title(row) for row in shown],
        "y": [_six(row["coefficient"]) for row in shown],
        "ratio": ratio,
        "ratios": [_six(row[ratio]) for row in shown] if ratio else None,
        "sites": [
            {"name": site.removeprefix(AT), "y": [_six(row[site]) for row in shown]}
            for site in sites[:_MOST_SITES]
        ],
        "columns": [key for key in rows[0] if key not in sites],
        "rows": [
            [_text(value) for key, value in row.items() if key not in sites] for row in rows[:500]
        ],
    }


def _title(row: Row) -> str:
    return f"{row['feature']}, {row['class']}" if "class" in row else row["feature"]


def _six(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
