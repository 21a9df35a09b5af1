"""Pictures of reproductions: a method has one style everywhere, and its name stands at its curve.

Where the optimum of a method's own problem is known, a panel beside the metric has the distance to
it, on a logarithmic axis; other metrics and costs have panels where the paper shows them. More than
seven methods get a small panel each, with the others in grey behind. Bands reach from the smallest
to the largest of the seeds. What is known to rounding only ends a curve.
"""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedloom.experiments.options import CompareSettings
from fedloom.experiments.raw_results import Raw, Run
from fedloom.pictures import labels
from fedloom.pictures.curves import scale_of_costs
from fedloom.pictures.picture import Picture

# Okabe and Ito's palette without its yellow, and four more that are apart from it.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#7A4FB5", "#8C6D31", "#4D6A00", "#B22222"),
)
STYLES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (6, 2, 1, 2, 1, 2)))
VARIANTS = {  # the line of a variant in every picture, by what stands behind the method's name
    "": 0, "2 bits": 1, "1 bit": 2, "2 bits, centres still": 4, "1 bit, centres still": 5,
    "beta-trick": 1, "sum": 0, "beta-trick, sum": 1, "mean": 2, "beta-trick, mean": 3,
}  # fmt: skip
FAMILIES = (  # which methods appear in one picture, so that none shares its colour with another
    "ffmdr codasca ffmdr_consensus local_sgda local_sgda_plus momentum_local_sgda fed_norm_sgda "
    "fedsgda_plus fedsgda_m fednest",
    "drfa fedavg afl q_fedavg drfa_prox drfa_ga",
    "decoupled_prox fedmid feddualavg fast_fedda feddr fedadmm",
    "egvfl gd agd admm randk_25% 2_of_5 coordinates_25% topk_25%",
    "quped fedavg local qupel pfedme per-fedavg mutual_learning",
)
_GAP = 0.06  # between two names, in heights of a panel
_EARLY = 0.2  # part of the evaluations for which a linear axis need not have room
_FLOOR = 1e-5  # of a distance: the last digit that raw results have
_ROUNDING = 1e-15  # of a relative gap: smaller ones are none
_NEAR_ROUNDING = 1e-12
_MANY = 7  # methods up to which one panel holds them all
_ACROSS = 4  # small panels in a row
_GREY = "#C8C8C8"
_ASTRAY = 10  # quartile distances below the middle half: what is lower would flatten the others
_LETTERS = 11.5  # of a title, in an inch
_HIGHEST = 100.0  # of a logarithmic axis: what grows beyond has diverged


def draw(raw: Raw, how: CompareSettings, panels: Sequence[str] = ()) -> Picture:
    """The main metric against its cost, its distance to a known optimum, and further panels.

    A further panel is a metric of the table against the same cost, or the main one against a cost.
    """
    raw = raw._replace(runs={method: runs for method, runs in raw.runs.items() if runs})
    if len(raw.runs) > _MANY:
        return _multiples(raw, how)
    metric, optimum = raw.metrics[0], bool(_optima(raw))
    count = 1 + optimum + len(panels)
    figure = Figure(figsize=(6.8 if count == 1 else 5.2 * count, 4.0), layout="constrained")
    first, *others = figure.subplots(1, count, squeeze=False)[0]
    log = how.log or metric in labels.LOGARITHMIC
    _panel(first, raw, metric, how.against, log=log, target=how.target)
    if optimum:
        _panel(others.pop(0), raw, metric, how.against, log=True, distance=True)
    for panel, shown in zip(others, panels, strict=True):
        if shown in labels.AXES:
            _panel(panel, raw, metric, shown, log=log, target=how.target)
        else:
            _panel(panel, raw, shown, how.against, log=False)
    aim = "; dashes: the target" if how.target is not None else ""
    _title(figure, f"{how.title}{_bands(raw)}{aim}{_dots(raw)}")
    return Picture(figure)


def _title(figure: Figure, text: str) -> None:
    """In lines that the figure has room for."""
    width = int(figure.get_figwidth() * _LETTERS)
    figure.suptitle("\n".join(textwrap.wrap(text, width)), fontsize=10)


def _multiples(raw: Raw, how: CompareSettings) -> Picture:
    """A small panel for each method, with the others behind it and its own optimum as a line."""
    metric, names = raw.metrics[0], list(raw.runs)
    series = {name: _series(runs, metric, how.against, False) for name, runs in raw.runs.items()}
    down = -(-len(names) // _ACROSS)
    figure = Figure(figsize=(11.5, 2.1 * down + 0.4), layout="constrained")
    grid = figure.subplots(down, _ACROSS, sharex=True, sharey=True, squeeze=False)
    for panel, name in zip(grid.flat, names, strict=False):
        panel.curves = []
        for other, (x, y) in series.items():
            line = style(name, names) if other == name else {"color": _GREY}
            wide, above = (1.8, 3) if other == name else (0.8, 1)
            panel.curves += panel.plot(x, y.mean(0), linewidth=wide, zorder=above, **line)
        x, y = series[name]
        panel.fill_between(x, y.min(0), y.max(0), color=style(name, names)["color"], alpha=0.2)
        _optimum(panel, raw.runs[name])
        panel.set_title(name, fontsize=9, color=style(name, names)["color"])
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
        if how.log or metric in labels.LOGARITHMIC:
            _logarithmic(panel)
        else:
            _close_up(panel, _optima(raw), peaks=raw.larger_is_better)
            _say_if_below(panel, y.mean(0))
    for panel in grid.flat[max(0, len(names) - _ACROSS) : len(names)]:
        panel.tick_params(labelbottom=True)  # nothing stands below
    for panel in grid.flat[len(names) :]:
        panel.set_axis_off()
    figure.supxlabel(labels.AXES[how.against], fontsize=9)
    figure.supylabel(labels.label(metric), fontsize=9)
    _title(figure, f"{how.title}{_bands(raw)}{_dots(raw)}")
    return Picture(figure)


def _bands(raw: Raw) -> str:
    seeds = {len(runs) for runs in raw.runs.values()}
    most = f"{max(seeds)}" if len(seeds) == 1 else f"up to {max(seeds)}"
    return f" (bands: smallest to largest of {most} seeds)" if max(seeds) > 1 else ""


def _dots(raw: Raw) -> str:
    return "; dots: optimum of the method's own problem" if _optima(raw) else ""


def _optimum(panel: Any, runs: Sequence[Run]) -> None:
    if runs[0].optimum:
        panel.axhline(runs[0].optimum, color="#555555", linewidth=1.0, linestyle=(0, (1, 2)))


def style(name: str, drawn: Sequence[str]) -> dict[str, Any]:
    """Colour by method, line by variant: "QuPeD, 2 bits" is QuPeD's colour with another line."""
    bases = [_base(other) for other in drawn]
    own = _base(name)
    family = max(FAMILIES, key=lambda known: sum(base in known.split() for base in bases)).split()
    order = [*family, *(base for base in dict.fromkeys(bases) if base not in family)]
    if not any(base in family for base in bases):
        order = list(dict.fromkeys(bases))
    variants = [_variant(other) for other, base in zip(drawn, bases, strict=True) if base == own]
    unknown = [variant for variant in variants if variant not in VARIANTS]
    taken = {VARIANTS[variant] for variant in variants if variant in VARIANTS}
    free = [line for line in range(len(STYLES)) if line not in taken]
    lines = VARIANTS | dict(zip(unknown, free, strict=False))
    return {
        "color": COLOURS[order.index(own) % len(COLOURS)],
        "linestyle": STYLES[lines[_variant(name)]],
    }


def _base(name: str) -> str:
    return re.split("[,:]", name)[0].strip().lower().replace(" ", "_")


def _variant(name: str) -> str:
    return "".join(re.split("[,:]", name, maxsplit=1)[1:]).strip()


def _panel(
    panel: Any, raw: Raw, metric: str, against: str, *,
    log: bool, distance: bool = False, target: float | None = None,
) -> None:  # fmt: skip
    ends, panel.curves = [], []
    names = list(raw.runs)
    for name, runs in raw.runs.items():
        x, y = _series(runs, metric, against, distance)
        if not len(x):
            continue
        line = style(name, names)
        panel.curves += panel.plot(x, y.mean(0), linewidth=1.7, **line)
        if len(y) > 1:
            panel.fill_between(x, y.min(0), y.max(0), color=line["color"], alpha=0.13, lw=0)
        if metric == raw.metrics[0] and not distance:
            _optimum(panel, runs)
        ends.append((float(y.mean(0)[-1]), name, line["color"]))
    panel.set_xlabel(labels.AXES[against])
    scale_of_costs(panel, against)
    if target is not None:
        panel.axhline(target, color="#555555", linewidth=0.9, linestyle=(0, (5, 4)), zorder=0)
    far = ", distance to the optimum" if distance else ""
    panel.set_ylabel(f"{labels.label(metric)}{far}")
    main = metric == raw.metrics[0]
    if log:
        _logarithmic(panel)
    else:
        known = [*_optima(raw), *([] if target is None else [target])] if main else []
        _close_up(panel, known, peaks=main and raw.larger_is_better)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
    _label(panel, ends)


def _optima(raw: Raw) -> list[float]:
    return [runs[0].optimum for runs in raw.runs.values() if runs[0].optimum is not None]


def _logarithmic(panel: Any) -> None:
    """A logarithmic axis on which a curve that diverged does not flatten the others."""
    panel.set_yscale("log")
    if panel.get_ylim()[1] > _HIGHEST:
        least = min(np.nanmin(curve.get_ydata(), initial=_HIGHEST) for curve in panel.curves)
        panel.set_ylim(least / 3, _HIGHEST)


def _close_up(panel: Any, levels: Sequence[float], *, peaks: bool) -> None:
    """Show where the curves go, not where they come from: what they are after the first part.

    Optima and the target, `levels`, have room; with `peaks` the highest values whenever they came.
    """
    curves = [np.array(curve.get_ydata()) for curve in panel.curves]
    shown = [y[int(_EARLY * len(y)) :] for y in curves]
    known = np.concatenate([y for y in shown if len(y)])
    known = known[np.isfinite(known)]
    first, third = np.quantile(known, [0.25, 0.75])
    low = min(max(known.min(), first - _ASTRAY * (third - first)), *levels, 1e9)
    high = max(known.max(), *levels, *(np.nanmax(y) for y in curves if peaks), -1e9)
    room = 0.08 * (high - low)
    panel.set_ylim(low - room, high + room)


def _say_if_below(panel: Any, y: np.ndarray) -> None:
    """Where a curve ends below its panel, say at which value."""
    if y[-1] < panel.get_ylim()[0]:
        said = f"ends below, at {y[-1]:.2f}"
        panel.text(0.5, 0.5, said, transform=panel.transAxes, ha="center", fontsize=8)


def _label(panel: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """The methods' names at the right end of their curves, pushed apart where they would meet."""
    to_panel = panel.transData + panel.transAxes.inverted()
    placed = sorted((float(to_panel.transform((1, max(y, 1e-300)))[1]), n, c) for y, n, c in ends)
    heights: list[float] = []
    for height, *_ in placed:
        low = heights[-1] + _GAP if heights else 0.0
        heights.append(max(min(height, 1.0), low))
    over = max(0.0, heights[-1] - 1.0) if heights else 0.0
    for i in reversed(range(len(heights))):  # what was pushed above the panel comes down again
        top = 1.0 if i == len(heights) - 1 else heights[i + 1] - _GAP
        heights[i] = min(heights[i], top) if over else heights[i]
    for height, (_, name, colour) in zip(heights, placed, strict=True):
        panel.annotate(
            name, (1.02, height), xycoords="axes fraction", color=colour, fontsize=8, va="center"
        )


def _series(
    runs: Sequence[Run], metric: str, against: str, distance: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Costs and values of all seeds; a run that ended early keeps its last value, as in tables."""
    rows = [[row for row in run.rows if metric in row] for run in runs]
    most = max(map(len, rows))
    at = list(zip(*(row for row in rows if len(row) == most), strict=True))
    if against == "bytes":
        x = np.array([np.mean([row["bytes_up"] + row["bytes_down"] for row in one]) for one in at])
    else:
        x = np.array([np.mean([row[against] for row in one]) for one in at])
    y = np.array([[row[min(i, len(row) - 1)][metric] for i in range(most)] for row in rows])
    if distance:
        optimum = runs[0].optimum
        y = y[:, :0] if optimum is None else np.maximum(np.abs(y - optimum), _FLOOR)
        x = x[: y.shape[1]]
    elif metric in labels.LOGARITHMIC and (y.max(0) < _ROUNDING).any():
        end = int(np.argmax(y.max(0) < _ROUNDING))
        end += y.max(0)[max(end - 1, 0)] < _NEAR_ROUNDING  # in single precision it ends before
        x, y = x[:end], np.maximum(y[:, :end], _ROUNDING)
    return x, y
