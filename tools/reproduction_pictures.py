"""Pictures of reproductions: a method has one style everywhere, and its name stands at its curve.

A picture has the panels that `reproductions/papers/*.toml` name, else the main metric against its
cost. Where the optimum of a method's own problem is known, a panel has the distance to it, on a
logarithmic axis. More than seven methods have a small panel each. Few methods have bands from the
smallest to the largest of the seeds, many have bars of the last values beside the panel. A cross is
where a seed diverged; the curve goes on with those that are left. What is known to rounding only
ends a curve.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedloom.experiments.options import CompareSettings
from fedloom.experiments.paper_panels import Panel
from fedloom.experiments.papers import Facts
from fedloom.experiments.raw_results import Raw
from fedloom.pictures import labels
from fedloom.pictures.curves import scale_of_costs
from fedloom.pictures.picture import Picture
from fedloom.protocol import Algorithm
from tools import picture_axes, picture_parts, small_panels
from tools.picture_axes import Named
from tools.picture_parts import Drawn
from tools.picture_styles import style

_PLAIN = Facts(shows="no paper", data="none", minutes=0.0)
_MANY = 7  # methods up to which one panel holds them all
_BANDS = 4  # methods up to which bands of seeds do not hide each other
_SIZES = {1: (7.4, 4.2), 2: (9.2, 3.9), 3: (7.4, 8.7), 4: (9.2, 6.2)}  # inches, by panels


def draw(
    raw: Raw,
    how: CompareSettings,
    shown: Facts | None = None,
    methods: Mapping[str, Algorithm] | None = None,
) -> Picture:
    """The picture of raw results; `methods` are those of the settings, by name."""
    shown = shown or _PLAIN
    called = {name: name for name in raw.runs} | (shown.called or {})
    runs = {called[name]: runs for name, runs in raw.runs.items() if runs}
    by_name = {called[name]: method for name, method in (methods or {}).items()}
    drawn = Drawn(raw._replace(runs=runs), how, by_name, shown.whole)
    if shown.apart or (not shown.panels and len(runs) > _MANY):
        return small_panels.draw(drawn)
    panels = [
        dataclasses.replace(one, methods=tuple(called[name] for name in one.methods))
        for one in shown.panels or [Panel()]
    ]
    optimum = any(group[0].optimum is not None for group in runs.values())
    count = len(panels) + optimum
    across = 2 - count % 2  # an odd number stands one below the other
    figure = Figure(figsize=_SIZES[count], layout="constrained")
    grid = list(figure.subplots(count // across, across, squeeze=False).flat)
    for panel, one in zip(grid, panels, strict=False):
        _panel(panel, drawn, one)
    if optimum:
        _panel(grid[-1], drawn, Panel(), distance=True)
    picture_parts.title(figure, drawn, grid)
    return Picture(figure)


def _panel(panel: Any, drawn: Drawn, shown: Panel, *, distance: bool = False) -> None:
    """A metric of some methods, or its distance to the optimum, against a cost."""
    raw, main = drawn.raw, drawn.raw.metrics[0]
    metric, against = shown.metric or main, shown.against or drawn.how.against
    names = [name for name in shown.methods or drawn.names if drawn.measured(name, metric)]
    found = {name: drawn.series(name, metric, against) for name in names}
    if distance:
        found = {name: one.distance(raw.runs[name][0].optimum) for name, one in found.items()}
    found = {name: one for name, one in found.items() if len(one.x)}
    lines = {name: style(name, drawn.names) for name in found}
    picture_parts.dressed(panel)
    for name, one in found.items():
        picture_parts.curve(panel, one, linewidth=picture_axes.WIDTH, **lines[name])
    panel.set_title(shown.title, fontsize=9.5)
    panel.set_ylabel(labels.label(metric) + ", distance to the optimum" * distance, fontsize=9)
    _costs(panel, against)
    known = [] if distance else _levels(panel, drawn, shown, found)
    many = len(found) > _BANDS and any(len(one.y) > 1 for one in found.values())
    if distance or drawn.log(metric):
        picture_axes.logarithmic(panel)
    elif not shown.early:
        seeds = picture_parts.spread(found.values(), ends=many)
        peaks = metric == main and raw.larger_is_better
        picture_axes.close_up(panel, known, seeds, peaks=peaks, whole=drawn.whole)
    if shown.early:
        picture_axes.early(panel)
    for name, one in found.items():
        if not many:
            picture_parts.band(panel, one, lines[name]["color"], 0.1)
        picture_parts.crosses(panel, one, lines[name]["color"])
    picture_axes.widen(panel, panel.curves)
    left = picture_axes.RIGHT
    if many:
        panel.marks.add("bars")
        ends = [(one.low[-1], one.high[-1], lines[name]["color"]) for name, one in found.items()]
        left = picture_axes.ranges(panel, ends)
    entries = [
        Named(drawn.titled(name), float(one.mean[-1]), {**lines[name], "lw": drawn_as.get_lw()})
        for (name, one), drawn_as in zip(found.items(), panel.curves, strict=True)
    ]
    picture_axes.name_curves(panel, entries, left)


def _costs(panel: Any, against: str) -> None:
    panel.set_xlabel(picture_axes.costs(against), fontsize=9)
    scale_of_costs(panel, against)
    if panel.get_gridspec().ncols > 1:
        panel.xaxis.set_major_locator(MaxNLocator(4))  # bytes in words need room


def _levels(panel: Any, drawn: Drawn, shown: Panel, names: Iterable[str]) -> list[float]:
    """The target, of the main metric if the panel has none of its own, and optima."""
    main = shown.metric in (None, drawn.raw.metrics[0])
    target = drawn.how.target if main and shown.target is None else shown.target
    known = picture_parts.levels(panel, (), target)
    for name in names if main else ():
        known += picture_parts.levels(panel, drawn.raw.runs[name], None)
    return known
