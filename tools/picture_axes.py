"""Axes of the pictures of reproductions: what of the curves they show, and names at their ends."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from fedloom.pictures import labels

WIDTH = 1.7  # of a curve
_WIDER = 2.4  # by how much a curve shows on both sides of each that lies upon it
_SAME = 0.006  # heights of a panel within which curves lie upon each other
EARLY = 5  # a fifth of the evaluations: a linear axis need not have room for them
_CLIFF = 0.08  # part of an axis that has only the way to where curves go
_ASTRAY = 3  # quartile distances below the middle half: what is lower would flatten the others
_SPREAD = 0.5  # of what curves take, above and below, that is left to the spread of seeds
_HIGHEST = 100.0  # of a logarithmic axis: what grows beyond has diverged
_SAMPLE = 0.07  # length of a name's sample of its line, in widths of a panel
RIGHT = 1.02  # where words begin beside a panel, in its widths
_BAR = 0.016  # from a bar to the next
_WORDS = 0.9  # inches of a panel's height that its words take
LETTER = 8.5  # size of names, in points


class Named(NamedTuple):
    """A curve's name, and where it ends."""

    name: str
    end: float
    line: Mapping[str, Any]


def logarithmic(panel: Any) -> None:
    """A logarithmic axis on which a curve that diverged does not flatten the others."""
    panel.set_yscale("log")
    if panel.get_ylim()[1] > _HIGHEST:
        least = min(np.nanmin(curve.get_ydata(), initial=_HIGHEST) for curve in panel.curves)
        panel.set_ylim(least / 3, _HIGHEST)


def close_up(
    panel: Any, levels: Sequence[float], spread: np.ndarray, *, peaks: bool, whole: bool
) -> None:
    """Show where the curves go, not where they come from: what they are after the first part.

    Optima and the target, `levels`, have room, and the `spread` of seeds as far as it does not
    flatten the curves; with `peaks` the highest values whenever they came. What is far below
    the others has room if the picture is to be `whole`.
    """
    curves = [np.array(curve.get_ydata()) for curve in panel.curves]
    known = np.concatenate([y[max(1, len(y) // EARLY) :] for y in curves])
    known = known[np.isfinite(known)]
    first, third = np.quantile(known, [0.25, 0.75])
    astray = -np.inf if whole else first - _ASTRAY * (third - first)
    low = min(max(known.min(), astray), *levels, 1e9)
    high = max(known.max(), *levels, *(np.nanmax(y) for y in curves if peaks), -1e9)
    most = _SPREAD * (high - low) if len(curves) > 1 else np.inf  # one is flattened by nothing
    low = min(low, max(np.min(spread, initial=low), low - most))
    high = max(high, min(np.max(spread, initial=high), high + most))
    room = 0.08 * (high - low) or 0.1
    panel.set_ylim(low - room, high + room)
    _after_the_first(panel)


def _after_the_first(panel: Any) -> None:
    """Begin at the second evaluation where the way to it takes much of the axis and is outside."""
    low, high = panel.get_ylim()
    drawn = [curve for curve in panel.curves if len(curve.get_xdata()) > 1]
    outside = all(not low <= curve.get_ydata()[0] <= high for curve in drawn)
    begin = min((curve.get_xdata()[1] for curve in drawn), default=0.0)
    end = max((curve.get_xdata()[-1] for curve in drawn), default=0.0)
    if outside and _CLIFF * end < begin < end:
        panel.set_xlim(begin - 0.03 * (end - begin), end + 0.03 * (end - begin))
        for curve in drawn:
            curve.set_data(curve.get_xdata()[1:], curve.get_ydata()[1:])


def early(panel: Any) -> None:
    """A logarithmic axis of costs, on which all values after the first evaluation have room."""
    for curve in panel.curves:
        curve.set_data(curve.get_xdata()[1:], curve.get_ydata()[1:])
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set_xlim(left=min(curve.get_xdata()[0] for curve in panel.curves))
    values = np.concatenate([curve.get_ydata() for curve in panel.curves])
    low, high = np.nanmin(values), np.nanmax(values)
    panel.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def widen(panel: Any, curves: Sequence[Any]) -> None:
    """Let curves that lie upon each other all be seen.

    Lines with gaps are above those without; of two alike, that below is wider.
    """
    panel.get_ylim(), panel.get_xlim()  # the limits that the transformation has are settled by it
    to_panel = panel.transData + panel.transAxes.inverted()
    with np.errstate(all="ignore"):
        drawn = [to_panel.transform(np.array(curve.get_data()).T) for curve in curves]
    for i, (curve, points) in enumerate(zip(curves, drawn, strict=True)):
        curve.set_zorder(2.1 if curve.is_dashed() else 2.0)
        others = zip(curves[i + 1 :], drawn[i + 1 :], strict=True)
        above = [
            c for c, own in others if c.is_dashed() == curve.is_dashed() and _same(points, own)
        ]
        curve.set_linewidth(WIDTH + _WIDER * len(above))


def _same(points: np.ndarray, others: np.ndarray) -> bool:
    if len(points) < 2 or points.shape != others.shape:
        return False
    apart = np.abs(np.clip(points, -0.1, 1.1) - np.clip(others, -0.1, 1.1)).max(1)
    return bool(np.mean(apart < _SAME) > 0.9)


def ranges(panel: Any, ends: Sequence[tuple[float, float, Any]]) -> float:
    """Bars beside a panel, from the smallest to the largest last value; where names may begin."""
    low, high = panel.get_ylim()
    for i, (least, most, colour) in enumerate(ends):
        at, inside = RIGHT + _BAR * i, np.clip([least, most], low, high)
        bar = Line2D(
            [at, at], inside, transform=panel.get_yaxis_transform(), color=colour, lw=2.6,
            clip_on=False, solid_capstyle="butt",
        )  # fmt: skip
        panel.add_artist(bar)
    return RIGHT + _BAR * len(ends)


def name_curves(panel: Any, entries: Sequence[Named], left: float) -> None:
    """Names with a sample of their line, from `left` on, pushed apart where they would meet."""
    panel.get_ylim()
    height = panel.figure.get_figheight() / panel.get_gridspec().nrows - _WORDS
    to_panel = panel.transData + panel.transAxes.inverted()
    gap = 1.45 * LETTER / (72 * height)
    places = [float(to_panel.transform((1, max(e.end, 1e-300)))[1]) for e in entries]
    order = sorted(range(len(entries)), key=lambda i: places[i])
    for i, at in zip(order, _apart([places[i] for i in order], gap), strict=True):
        name, _, line = entries[i]
        sample = Line2D(
            [left, left + _SAMPLE], [at, at], transform=panel.transAxes, clip_on=False,
            **line,
        )  # fmt: skip
        panel.add_artist(sample)
        panel.annotate(
            name, (left + _SAMPLE + 0.012, at), xycoords="axes fraction", color=line["color"],
            fontsize=LETTER, va="center",
        )  # fmt: skip


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Rising heights within a panel, no two nearer than the gap."""
    heights: list[float] = []
    for place in places:
        low = heights[-1] + gap if heights else 0.0
        heights.append(max(min(place, 1.0), low))
    if heights and heights[-1] > 1.0:  # what was pushed above the panel comes down again
        for i in reversed(range(len(heights))):
            top = 1.0 if i == len(heights) - 1 else heights[i + 1] - gap
            heights[i] = min(heights[i], top)
    return heights


def costs(against: str) -> str:
    """An axis in words."""
    more = {"products": "products with the parties' columns"}
    return (labels.AXES | more)[against]
