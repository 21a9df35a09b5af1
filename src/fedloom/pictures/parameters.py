"""A metric against the parameters of a sweep: which values are good, and how much it matters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.pictures import labels
from fedloom.pictures.curves import line_style
from fedloom.pictures.picture import Picture

Rows = Sequence[Mapping[str, Any]]
_MANY = 10.0  # a range whose ends are further apart than this factor is logarithmic


def draw(rows: Rows, fields: Sequence[str], metric: str, larger_is_better: bool) -> Picture:
    """A panel for each parameter: a mark for each trial, and a line along the best of each value.

    Args:
        rows: The trials: method, the value of each field that concerns it, and the metric.
        fields: The parameters.
        metric: What was measured on held-out rows.
        larger_is_better: Which way the metric should go.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(fields), 3.6), layout="constrained")
    panels = figure.subplots(1, len(fields), squeeze=False, sharey=True)[0]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for panel, field in zip(panels, fields, strict=True):
        places = _places([row[field] for row in rows if field in row])
        for i, method in enumerate(methods):
            own = [row for row in rows if row["method"] == method and field in row]
            x = np.array([places[str(row[field])] for row in own])
            y = np.array([row[metric] for row in own], float)
            style = line_style(i)
            panel.scatter(x, y, s=16, alpha=0.6, linewidths=0, color=style["color"])
            x, y = x[np.isfinite(y)], y[np.isfinite(y)]  # without those that diverged
            along, best = np.unique(x), np.max if larger_is_better else np.min
            line = [best(y[x == at]) for at in along]
            panel.plot(along, line, label=method, **style)
        _dress(panel, field, [row[field] for row in rows if field in row], places)
    panels[0].set_ylabel(f"{labels.label(metric)}, held-out rows")
    panels[0].legend(frameon=False)
    return Picture(figure)


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _places(values: Sequence[Any]) -> dict[str, float]:
    """Where values stand on the axis: numbers at themselves, others one after the other."""
    if _numbers(values):
        return {str(value): float(value) for value in values}
    return {text: float(i) for i, text in enumerate(dict.fromkeys(map(str, values)))}


def _dress(panel: Any, field: str, values: Sequence[Any], places: Mapping[str, float]) -> None:
    panel.set_xlabel(field)
    if not _numbers(values):
        panel.set_xticks(list(places.values()), list(places))
    elif min(values) > 0 and max(values) > _MANY * min(values):
        panel.set_xscale("log")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
