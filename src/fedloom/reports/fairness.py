"""How clients fare under each method: the whole distribution, not only its mean."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedloom.files import write_file
from fedloom.measuring.result import Result
from fedloom.pictures.curves import COLOURS

_WIDTH = 0.32  # half of a strip


def distribution(
    results: Mapping[str, Sequence[Result]], path: str | Path, *, metric: str, title: str = ""
) -> None:
    """Draw one strip a method: a dot for each client and seed, a bar at the mean.

    Every client has its own place across the strip, the same for all methods and seeds, so that
    one may be followed. The suffix of `path` chooses PNG or SVG.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 1.1 * len(results), 3.8), layout="constrained")
    panel = figure.add_subplot()
    for i, runs in enumerate(results.values()):
        values = np.array([run.client_metrics[metric] for run in runs])
        colour = COLOURS[i % len(COLOURS)]
        across = i + np.linspace(-_WIDTH, _WIDTH, values.shape[1])
        size = 14 if values.shape[1] <= 30 else 6
        for row in values:
            panel.scatter(across, row, s=size, color=colour, alpha=0.5, linewidths=0)
        known = values[np.isfinite(values)]  # a client may have no test rows, a run may diverge
        mean = known.mean() if known.size else np.nan
        panel.hlines(mean, i - 1.2 * _WIDTH, i + 1.2 * _WIDTH, color=colour, linewidth=2)
        panel.annotate(
            f"worst {_worst(runs, metric):.3g}",
            (i, 0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
    panel.set_xticks(range(len(results)), list(results), rotation=20, ha="right")
    panel.set_ylabel(f"{metric.replace('_', ' ')} of each client")
    panel.margins(y=0.12)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.3)
    figure.suptitle(title, fontsize=11)
    path = Path(path)
    write_file(
        path,
        lambda temporary: figure.savefig(temporary, format=path.suffix[1:], dpi=150),
        shared=True,
    )


def _worst(runs: Sequence[Result], metric: str) -> float:
    """The worst client's value, as the mean over the seeds."""
    return float(np.mean([run.final[f"{metric}_worst"] for run in runs]))


def metric_of_clients(results: Mapping[str, Sequence[Result]], metric: str) -> str | None:
    """The metric that each client has and that `metric` summarises: accuracy for accuracy_worst.

    The first that all have where there is no such; None where clients have no metrics, as parties
    of a vertical federation, whose numbers have no worst.
    """
    runs = [run for group in results.values() for run in group]
    common = [
        name
        for name in runs[0].client_metrics
        if all(name in run.client_metrics and f"{name}_worst" in run.final for run in runs)
    ]
    summarised = [name for name in common if metric == name or metric.startswith(f"{name}_")]
    return next(iter(summarised or common), None)
