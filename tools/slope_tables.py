"""Tables of measured slopes, from what `python -m benchmarks.slopes` left."""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.pictures import labels

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"
_AT_LEAST = 3  # points that make a slope
_MOST, _SOME = 12, 8  # points that a row has all of, and how many it has of more
Series = dict[float, list[float | None]]  # the values over seeds, by what is varied


def series(found: dict[str, Any]) -> dict[str, Series]:
    """The points of each line."""
    made: dict[str, Series] = {}
    for point in found["points"]:
        made.setdefault(point["series"], {}).setdefault(point["x"], []).append(point["value"])
    return {name: dict(sorted(points.items())) for name, points in made.items()}


def means(points: Series) -> dict[float, float]:
    """Over seeds, of the points that all of them reached."""
    return {
        x: statistics.fmean(v for v in values if v is not None)
        for x, values in points.items()
        if None not in values
    }


def slope(points: Series) -> float | None:
    """Of the straight line through the logarithms of the means."""
    known = means(points)
    if len(known) < _AT_LEAST or min(*known, *known.values()) <= 0:
        return None
    return float(np.polyfit(np.log(list(known)), np.log(list(known.values())), 1)[0])


def some(values: list[float]) -> list[float]:
    """All, or of many the first, the last and some between."""
    if len(values) <= _MOST:
        return values
    return [values[int(i)] for i in np.linspace(0, len(values) - 1, _SOME).round()]


def table(name: str) -> str:
    """What stands on a page in the place of a study."""
    if not (RAW / f"{name}.json").exists():
        return f"*No raw results yet: `python -m benchmarks.slopes {name}` makes them.*\n"
    found = json.loads((RAW / f"{name}.json").read_text(encoding="utf-8"))
    ordered = found["by_theory"] is not None
    heads = ["varied", "measured", *(["slope", "by theory"] if ordered else [])]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for title, points in series(found).items():
        known, fitted, told = means(points), slope(points), some(list(points))
        cells = [labels.number(value) for value in known.values() if len(points) == 1] or [
            f"{labels.number(x)}: {labels.number(known[x], 4) if x in known else 'not reached'}"
            for x in told
        ]
        row = [title, ", ".join(cells)]
        if ordered:
            shown = "" if fitted is None else f"{fitted:+z.2f}"
            row += [shown, found["by_theory"].get(title, "")]
        lines.append(f"| {' | '.join(row)} |")
    seeds = len({point["seed"] for point in found["points"]})
    over = f", mean over {seeds} seeds" if seeds > 1 else ""
    measured = found["measured"].replace("*", r"\*")  # as in x*, which would end the caption
    said = [f"Varied: {found['varied']}. Measured: {measured}{over}."]
    said += ["A slope is that of a line through logarithms."] if ordered else []
    most = max(map(len, series(found).values()))
    said += [f"A row has {_SOME} of up to {most} points."] if most > _MOST else []
    made = f"{found['machine']}, JAX {found['versions']['jax']}"
    said += [f"`{found['command']}`, {found['date']}, {made};"]
    caption = " ".join([*said, f"[raw results](raw/{name}.json)."])
    body = "\n".join(lines)
    return f"{body}\n\n*{caption}*\n\n![{measured}](images/{name}.png)\n"
