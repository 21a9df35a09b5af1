"""A small panel for each method of a reproduction, with the others in grey behind."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedloom.pictures import labels
from fedloom.pictures.picture import Picture
from tools import picture_axes, picture_parts
from tools.picture_parts import Drawn
from tools.picture_styles import style

_ACROSS = (4, 3)  # panels in a row, whichever leaves less room empty
_GREY = "#C8C8C8"
_NO_BARS = np.zeros(0)  # panels share an axis, which is that of the curves


def draw(drawn: Drawn) -> Picture:
    """The main metric against its cost, for each method with its own optimum and the target."""
    raw, how, names = drawn.raw, drawn.how, drawn.names
    metric = raw.metrics[0]
    found = {name: drawn.series(name, metric, how.against) for name in names}
    across = min(_ACROSS, key=lambda row: -len(names) % row)
    down = -(-len(names) // across)
    figure = Figure(figsize=(9.2, 1.9 * down + 0.5), layout="constrained")
    grid = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat)
    panels = grid[: len(names)]
    optima = [runs[0].optimum for runs in raw.runs.values() if runs[0].optimum is not None]
    for panel, name in zip(panels, names, strict=True):
        line = style(name, names)
        picture_parts.dressed(panel)
        for other, one in found.items():
            if other != name:
                panel.curves += panel.plot(one.x, one.mean, color=_GREY, linewidth=0.8, zorder=1)
        picture_parts.curve(panel, found[name], linewidth=1.8, zorder=3, **line)
        known = picture_parts.levels(panel, raw.runs[name], how.target)
        if drawn.log(metric):
            picture_axes.logarithmic(panel)
        else:
            picture_axes.close_up(
                panel, [*known, *optima], _NO_BARS, peaks=raw.larger_is_better, whole=drawn.whole
            )
            _say_if_below(panel, found[name].mean)
        picture_parts.band(panel, found[name], line["color"], 0.22)
        picture_parts.crosses(panel, found[name], line["color"])
        over = drawn.titled(name).replace(" (", "\n(")
        panel.set_title(over, fontsize=9, color=line["color"])
    for panel in panels[-across:]:  # nothing stands below
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(picture_axes.costs(how.against), fontsize=9)
    for panel in grid[len(names) :]:
        panel.set_axis_off()
    figure.supylabel(labels.label(metric), fontsize=9)
    picture_parts.title(figure, drawn, panels)
    return Picture(figure)


def _say_if_below(panel: Any, y: np.ndarray) -> None:
    """Where a curve ends below its panel, say at which value."""
    if y[-1] < panel.get_ylim()[0]:
        said = f"ends below, at {y[-1]:.2f}"
        panel.text(0.5, 0.08, said, transform=panel.transAxes, ha="center", fontsize=8.5)
