"""Curves of metrics against rounds, bytes or seconds, for several methods and seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.errors import ParameterError
from fedloom.hints import closest
from fedloom.pictures import labels
from fedloom.pictures.labels import AXES
from fedloom.pictures.picture import Picture
from fedloom.pictures.shown import Shown, evaluations

# Okabe and Ito's palette: told apart by colour-blind readers, and in grey by the line styles.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLES = ("-", "--", "-.", ":")


def curves(
    results: Mapping[str, Shown | Sequence[Shown]],
    path: str | Path,
    *,
    metrics: tuple[str, ...],
    against: str = "round",
    log: bool = False,
    title: str = "",
) -> None:
    """Draw curves into a file; the suffix of `path` chooses PNG or SVG."""
    draw(results, metrics=metrics, against=against, log=log, title=title).save(path)


def draw(
    results: Mapping[str, Shown | Sequence[Shown]],
    *,
    metrics: Sequence[str],
    against: str = "round",
    log: bool = False,
    title: str = "",
) -> Picture:
    """One panel a metric and one line a method.

    Where a method has several results, one a seed, the line is their mean and the band reaches from
    the smallest to the largest.
    """
    _check(results, metrics, against)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(metrics), 3.6), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        for i, (name, runs) in enumerate(results.items()):
            x, y = _series(_listed(runs), metric, against)
            if not len(x):
                continue  # this method was not measured so
            style = line_style(i)
            panel.plot(x, y.mean(0), label=name, linewidth=2, **style)
            if len(y) > 1:
                panel.fill_between(x, y.min(0), y.max(0), color=style["color"], alpha=0.15, lw=0)
        scale_of_costs(panel, against)
        _dress(
            panel,
            AXES.get(against, against),
            labels.label(metric),
            log or metric in labels.LOGARITHMIC,
        )
    panels[0].legend(frameon=False)
    figure.suptitle(title, fontsize=11)
    return Picture(figure)


def line_style(number: int) -> dict[str, str]:
    """Colour and line of a method by its number; 32 differ before one comes again."""
    colour, again = number % len(COLOURS), number // len(COLOURS)
    return {"color": COLOURS[colour], "linestyle": STYLES[(number + again) % len(STYLES)]}


def scale_of_costs(panel: Any, against: str) -> None:
    """Bytes as people read them, on an axis with room for the words."""
    if against in ("bytes", "bytes_up", "bytes_down"):
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda count, _: labels.bytes_text(count)))


def _check(
    results: Mapping[str, Shown | Sequence[Shown]], metrics: Sequence[str], against: str
) -> None:
    """Refuse metrics that no result has, for which a picture would be empty."""
    if against not in AXES:
        raise ParameterError(
            f"against must be one of {', '.join(AXES)}; got {against!r}. {closest(against, AXES)}"
        )
    runs = [run for given in results.values() for run in _listed(given)]
    columns = dict.fromkeys(name for run in runs for row in run.rows for name in row)
    for metric in metrics:
        if columns and metric not in columns:
            raise ParameterError(
                f"metrics must be columns of the history; got {metric!r}. "
                f"{closest(metric, columns)}"
            )


def _listed(runs: Shown | Sequence[Shown]) -> Sequence[Shown]:
    return runs if isinstance(runs, Sequence) else [runs]


def _series(runs: Sequence[Shown], metric: str, against: str) -> tuple[np.ndarray, np.ndarray]:
    """Where all runs were evaluated, and their metrics there."""
    rows = [at for at in evaluations(runs) if all(metric in row for row in at)]
    x = np.array([np.mean([_cost(row, against) for row in at]) for at in rows])
    return x, np.array([[row[metric] for row in at] for at in rows]).T


def _cost(row: Mapping[str, float], against: str) -> float:
    return row["bytes_up"] + row["bytes_down"] if against == "bytes" else row[against]


def _dress(panel: Any, x: str, y: str, log: bool) -> None:
    panel.set(xlabel=x, ylabel=y)
    if log and panel.dataLim.y1 > 0:  # a scale for numbers > 0
        panel.set_yscale("log")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
