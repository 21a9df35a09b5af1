"""What pictures of reproductions are drawn from, and the parts that all of their panels have."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from fedloom.experiments.options import CompareSettings
from fedloom.experiments.paper_panels import PRODUCTS
from fedloom.experiments.raw_results import Raw, Run
from fedloom.pictures import labels
from fedloom.protocol import Algorithm
from tools import products
from tools.picture_axes import EARLY
from tools.picture_series import Cost, Series, series

_LETTERS = 12.5  # of a title, in an inch
_FEW = 12  # evaluations that are marked
_LEVEL = "#555555"
_TARGET = {"color": _LEVEL, "linewidth": 0.9, "linestyle": (0, (5, 4)), "zorder": 0}
_OPTIMUM = {"color": _LEVEL, "linewidth": 1.0, "linestyle": (0, (1, 2))}
_MARKS = {  # what a title says of what its panels have
    "bands": "bands: smallest to largest of {seeds} seeds",
    "bars": "bars at the right: smallest to largest last value of {seeds} seeds",
    "target": "dashes: the target",
    "optimum": "dots: optimum of the method's own problem",
    "crosses": "crosses: a seed diverged, the curve is of those left",
}


class Drawn(NamedTuple):
    """Raw results and methods, by the names that they have in the picture."""

    raw: Raw
    how: CompareSettings
    methods: Mapping[str, Algorithm]
    whole: bool  # whether values far below the others have room

    @property
    def names(self) -> list[str]:
        """Of all methods."""
        return list(self.raw.runs)

    def series(self, name: str, metric: str, against: str) -> Series:
        """The values of a method."""
        found = series(self.raw.runs[name], metric, self._cost(name, against))
        return found.above_rounding() if metric in labels.LOGARITHMIC else found

    def measured(self, name: str, metric: str) -> bool:
        """Whether a method has this metric."""
        return any(metric in row for row in self.raw.runs[name][0].rows)

    def titled(self, name: str) -> str:
        """A name, with how many of its seeds diverged, as in tables."""
        runs = self.raw.runs[name]
        diverged = sum(run.status == "diverged" for run in runs)
        return f"{name} ({diverged} of {len(runs)} diverged)" if diverged else name

    def log(self, metric: str) -> bool:
        """Whether the axis of a metric is logarithmic."""
        return metric in labels.LOGARITHMIC or (self.how.log and metric == self.raw.metrics[0])

    def _cost(self, name: str, against: str) -> Cost:
        if against == "bytes":
            return lambda row: row["bytes_up"] + row["bytes_down"]
        if against == PRODUCTS:
            work = products.per_iteration(self.methods[name])
            return lambda row: work * row["round"]
        return lambda row: row[against]


def title(figure: Figure, drawn: Drawn, panels: Iterable[Any]) -> None:
    """What is shown and what marks mean, in lines that the figure has room for."""
    seeds = {len(runs) for runs in drawn.raw.runs.values()}
    most = f"{max(seeds)}" if len(seeds) == 1 else f"up to {max(seeds)}"
    marks = {mark for panel in panels for mark in panel.marks}
    said = "; ".join(text for mark, text in _MARKS.items() if mark in marks).format(seeds=most)
    text = f"{drawn.how.title} ({said})" if said else drawn.how.title
    lines = textwrap.wrap(text, int(figure.get_figwidth() * _LETTERS))
    figure.suptitle("\n".join(lines), fontsize=10)


def dressed(panel: Any) -> None:
    """A panel without curves, and without marks that the title explains."""
    panel.curves, panel.marks = [], set()
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)


def curve(panel: Any, one: Series, **line: Any) -> None:
    """The mean over seeds; few evaluations are marked."""
    mark = "." if one.evaluations <= _FEW else ""
    panel.curves += panel.plot(one.x, one.mean, marker=mark, **line)


def levels(panel: Any, runs: Sequence[Run], target: float | None) -> list[float]:
    """The optimum of a method and the target, as lines; their values."""
    found = []
    if runs and runs[0].optimum is not None:
        panel.axhline(runs[0].optimum, **_OPTIMUM)
        panel.marks.add("optimum")
        found.append(runs[0].optimum)
    if target is not None:
        panel.axhline(target, **_TARGET)
        panel.marks.add("target")
        found.append(target)
    return found


def band(panel: Any, one: Series, colour: Any, alpha: float) -> None:
    """From the smallest to the largest of the seeds, where the panel has curves."""
    if len(one.y) > 1:
        seen = one.x >= min(line.get_xdata()[0] for line in panel.curves if len(line.get_xdata()))
        x, low, high = one.x[seen], one.low[seen], one.high[seen]
        panel.fill_between(x, low, high, color=colour, alpha=alpha, lw=0)
        panel.marks.add("bands")


def crosses(panel: Any, one: Series, colour: Any) -> None:
    """Where seeds diverged, at the edge of the panel if their last value is outside of it."""
    low, high = panel.get_ylim()
    for x, y in one.diverged:
        at = min(max(y, low), high)
        panel.plot(x, at, "x", color=colour, ms=7, mew=2, zorder=5, clip_on=False)
        panel.marks.add("crosses")


def spread(found: Iterable[Series], *, ends: bool) -> np.ndarray:
    """The smallest and largest of several seeds: after the first part of a run, or at its end."""
    kept = [np.zeros(0)]
    for one in found:
        begin = -1 if ends else len(one.x) // EARLY
        if len(one.y) > 1:
            kept += [one.low[begin:], one.high[begin:]]
    return np.concatenate(kept)
