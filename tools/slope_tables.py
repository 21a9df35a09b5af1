"""Tables and pictures of measured slopes, from what `python -m benchmarks.slopes` left."""

import json
import statistics
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from fedloom.pictures import labels
from fedloom.pictures.picture import Picture
from tools.reproduction_pictures import style

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"
_AT_LEAST = 3  # points that make a slope
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


def table(name: str) -> str:
    """What stands on a page in the place of a study."""
    if not (RAW / f"{name}.json").exists():
        return f"*No raw results yet: `python -m benchmarks.slopes {name}` makes them.*\n"
    found = json.loads((RAW / f"{name}.json").read_text(encoding="utf-8"))
    ordered = found["by_theory"] is not None
    heads = ["varied", "measured", *(["slope", "by theory"] if ordered else [])]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for title, points in series(found).items():
        known, fitted = means(points), slope(points)
        cells = [labels.number(value) for value in known.values() if len(points) == 1] or [
            f"{labels.number(x)}: {labels.number(known[x], 4) if x in known else 'not reached'}"
            for x in points
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
    made = f"{found['machine']}, JAX {found['versions']['jax']}"
    said += [f"`{found['command']}`, {found['date']}, {made};"]
    caption = " ".join([*said, f"[raw results](raw/{name}.json)."])
    body = "\n".join(lines)
    return f"{body}\n\n*{caption}*\n\n![{measured}](images/{name}.png)\n"


def draw(name: str) -> Picture:
    """A panel for each series where what is varied differs, else one for all."""
    found = json.loads((RAW / f"{name}.json").read_text(encoding="utf-8"))
    lines = series(found)
    apart, ordered = found["varied"].startswith("what"), found["by_theory"] is not None
    count = len(lines) if apart else 1
    figure = Figure(figsize=(max(5.6, 3.5 * count), 3.3), layout="constrained")
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    widths = np.linspace(3.0, 1.2, len(lines))  # where lines coincide, all are to be seen
    for i, (title, points) in enumerate(lines.items()):
        panel, known = panels[i if apart else 0], means(points)
        fitted = slope(points)
        text = title if fitted is None or not ordered else f"{title}: slope {fitted:+z.2f}"
        line = style(title, list(lines))
        if len(points) == 1:  # what the others are held against
            panel.axhline(*known.values(), color=line["color"], ls=(0, (5, 4)), lw=1.2, label=text)
            continue
        wide = {"linewidth": widths[i], "markersize": 2.5 * widths[i]}
        panel.plot(list(known), list(known.values()), marker="o", label=text, **wide, **line)
        each = [(x, v) for x, values in points.items() for v in values if v is not None]
        panel.plot(*zip(*each, strict=True), ".", color=line["color"], ms=3, alpha=0.5)
        panel.set_xlabel(title if apart else found["varied"])
        if apart:
            panel.set_title(text, fontsize=9)
    for panel in panels:
        if found["varied"] not in ("iteration", "round"):
            panel.set_xscale("log")
            ticks = sorted({x for line in panel.get_lines() for x in line.get_xdata() if x > 1e-9})
            panel.set_xticks(ticks, [_tick(x) for x in ticks])
            panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_yscale("log" if found["log"] else "linear")
        panel.grid(alpha=0.3, which="both")
        panel.spines[["top", "right"]].set_visible(False)
    if not apart:
        panels[0].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    words = found["measured"][:1].upper() + found["measured"][1:]
    panels[0].set_ylabel("\n".join(textwrap.wrap(words, 36)), fontsize=9)
    return Picture(figure)


def _tick(value: float) -> str:
    """A number at an axis, without a power of ten."""
    return labels.number(value) if value < 1000 else f"{value:,.0f}"
