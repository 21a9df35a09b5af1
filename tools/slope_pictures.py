"""Pictures of studies, from what `python -m benchmarks.slopes` left.

`slope_pictures.toml` has their titles, and which series have a panel of their own. What was not
reached is a triangle at the top. Where lines coincide, those below are wider.
"""

import json
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from fedloom.pictures import labels
from fedloom.pictures.picture import Picture
from tools import picture_axes, slope_tables
from tools.picture_styles import style
from tools.slope_tables import Series, means, series, slope

FACTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_TIME = re.compile(r"(iterations?|rounds?|seconds?)$")  # what goes on, and is not tried at values
_HISTORY = 12  # points from which on a line is a history, without marks
_TOP = 0.95  # of a panel, where what was not reached stands
_NEXT = 0.07  # below it, that of another line
_DECADE = 10.0
_MARKS = "osD^vP"


class Part(NamedTuple):
    """A panel, with its lines by their names there, and the names of all lines of the study."""

    title: str
    measured: str
    varied: str
    lines: dict[str, Series]
    names: list[str]
    least: float | None = None  # where the panel ends, whatever lies below


def draw(name: str) -> Picture:
    """A panel for each series where what is varied differs, else those of the facts, or one."""
    found = json.loads((slope_tables.RAW / f"{name}.json").read_text(encoding="utf-8"))
    parts = parts_of(found, FACTS.get(name, {}).get("panels", [{}]))
    beside = found["varied"].startswith("what")
    shape = (1, len(parts)) if beside else (len(parts), 1)
    size = (9.2, 3.4) if beside else (7.4, 1.0 + 2.9 * len(parts))
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(*shape, squeeze=False, sharey=beside).flat)
    marks = set()
    for panel, part in zip(panels, parts, strict=True):
        if all(len(points) == 1 for points in part.lines.values()):
            marks |= _bars(panel, part)
        else:
            marks |= _lines(panel, part, found)
        panel.set_title(part.title, fontsize=9.5)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        if beside and panel is not panels[0]:
            panel.set_ylabel("")
    said = FACTS.get(name, {}).get("title", "")
    said += f" ({'; '.join(sorted(marks))})" if marks else ""
    figure.suptitle("\n".join(textwrap.wrap(said, int(12.5 * size[0]))), fontsize=10)
    return Picture(figure)


def parts_of(found: Mapping[str, Any], panels: list[dict[str, Any]]) -> list[Part]:
    """The panels that a study is drawn in."""
    lines, measured = series(found), found["measured"]
    if found["varied"].startswith("what"):
        return [
            Part(_with_slope(name, points, found), measured, name, {name: points}, list(lines))
            for name, points in lines.items()
        ]
    endings = tuple(panel["of"] for panel in panels if "of" in panel)
    names = [_short(name, endings) for name in lines]
    made = []
    for panel in panels:
        own, also = panel.get("of"), panel.get("also", ())
        chosen = {
            _short(name, endings): points
            for name, points in lines.items()
            if name in also or (name.endswith(own) if own else not name.endswith(endings))
        }
        title, least = panel.get("title", ""), panel.get("least")
        axis = panel.get("measured", measured)
        made.append(Part(title, axis, found["varied"], chosen, names, least))
    return made


def _short(name: str, endings: tuple[str, ...]) -> str:
    return name.removesuffix(next((end for end in endings if name.endswith(end)), ""))


def _with_slope(name: str, points: Series, found: Mapping[str, Any]) -> str:
    fitted = slope(points) if found["by_theory"] is not None else None
    return name if fitted is None else f"{name}: slope {fitted:+z.2f}"


def _lines(panel: Any, part: Part, found: Mapping[str, Any]) -> set[str]:
    """What is measured against what is varied; what marks mean."""
    drawn, marks = {}, set()
    for number, (name, points) in enumerate(part.lines.items()):
        known, line = means(points), style(name, part.names)
        text = _with_slope(name, points, found)
        if len(points) == 1:  # what the others are held against
            panel.axhline(*known.values(), color=line["color"], ls=(0, (5, 4)), lw=1.2, label=text)
            continue
        mark = {"marker": _MARKS[number % len(_MARKS)], "markersize": 4.5}
        mark = mark if len(points) <= _HISTORY else {}
        drawn[name] = panel.plot(list(known), list(known.values()), label=text, **mark, **line)[0]
        if any(len(values) > 1 for values in points.values()):
            each = [(x, v) for x, values in points.items() for v in values if v is not None]
            panel.plot(*zip(*each, strict=True), ".", color=line["color"], ms=3.5, alpha=0.5)
            marks.add("dots: single seeds")
    if not _TIME.search(found["varied"]):
        panel.set_xscale("log")
        ticks = sorted({x for points in part.lines.values() for x in points})
        panel.set_xticks(ticks, [_tick(x) for x in ticks])
        panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_yscale("log" if found["log"] else "linear")
    if any(None in values for points in part.lines.values() for values in points.values()):
        marks.add("triangles: not reached")
        _not_reached(panel, part, drawn)
    low, high = panel.get_ylim()
    if found["log"] and high < _DECADE * low:  # powers of ten would not tell values apart
        panel.yaxis.set_major_formatter(lambda value, _: _tick(value))
        panel.yaxis.set_minor_formatter(lambda value, _: _tick(value))
    picture_axes.widen(panel, list(drawn.values()))
    words = part.measured[:1].upper() + part.measured[1:]
    panel.set_ylabel("\n".join(textwrap.wrap(words, 36)), fontsize=9)
    panel.set_xlabel(part.varied, fontsize=9)
    if part.least is not None:
        panel.set_ylim(bottom=part.least)
    if len(part.lines) > 1:
        panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8.5)
    return marks


def _not_reached(panel: Any, part: Part, drawn: Mapping[str, Any]) -> None:
    """Triangles above all curves, and where a curve would go on to them."""
    low, high = panel.get_ylim()
    log = panel.get_yscale() == "log"
    panel.set_ylim(low, high * (high / low) ** 0.3 if log else high + 0.3 * (high - low))
    to_data = panel.transAxes + panel.transData.inverted()
    above: dict[float, int] = {}
    for name, line in drawn.items():
        known, points = means(part.lines[name]), part.lines[name]
        ended = max(known, default=None)
        for x in [x for x in points if x not in known]:
            number = above[x] = above.get(x, -1) + 1
            y = to_data.transform((0.0, _TOP - _NEXT * number))[1]
            panel.plot(x, y, "^", mfc="white", mec=line.get_color(), ms=6)
            if ended is not None and x == min(far for far in points if far > ended):
                panel.plot([ended, x], [known[ended], y], ":", color=line.get_color(), lw=1.2)


def _bars(panel: Any, part: Part) -> set[str]:
    """Single values, by name."""
    marks = set()
    for place, (name, points) in enumerate(reversed(part.lines.items())):
        (values,) = points.values()
        found = [value for value in values if value is not None]
        panel.barh(place, np.mean(found), 0.6, color=style(name, part.names)["color"], alpha=0.6)
        if len(values) > 1:
            panel.plot(found, [place] * len(found), ".", color="black", ms=4)
            marks.add("dots: single seeds")
    panel.set_yticks(range(len(part.lines)), list(reversed(part.lines)), fontsize=8.5)
    panel.set_xlabel(part.measured[:1].upper() + part.measured[1:], fontsize=9)
    return marks


def _tick(value: float) -> str:
    """A number at an axis, without a power of ten."""
    return labels.number(value) if value < 1000 else f"{value:,.0f}"
