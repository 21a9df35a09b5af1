"""Curves of a metric against rounds or bytes, for several results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.engines.result import Result
from fedloom.files import write_file

# Okabe and Ito's palette: told apart by colour-blind readers, and in grey by the line styles.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLES = ("-", "--", "-.", ":")
_AXES = {"round": "round", "bytes_up": "bytes sent by clients", "seconds": "seconds"}


def curves(
    results: Mapping[str, Result],
    path: str | Path,
    *,
    metrics: tuple[str, ...],
    against: str = "round",
    title: str = "",
) -> None:
    """Draw one panel a metric and one line a result; the suffix of `path` chooses PNG or SVG."""
    import matplotlib

    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(metrics), figsize=(5.2 * len(metrics), 3.6), layout="constrained", squeeze=False
    )
    for panel, metric in zip(panels[0], metrics, strict=True):
        for i, (name, result) in enumerate(results.items()):
            rows = [row for row in result.rows if metric in row]
            panel.plot(
                [row[against] for row in rows],
                [row[metric] for row in rows],
                STYLES[i % len(STYLES)],
                color=COLOURS[i % len(COLOURS)],
                label=name,
                linewidth=2,
            )
        _dress(panel, _AXES.get(against, against), metric.replace("_", ", "))
    panels[0][0].legend(frameon=False)
    figure.suptitle(title, fontsize=11)
    path = Path(path)
    write_file(path, lambda temporary: figure.savefig(temporary, format=path.suffix[1:], dpi=150))
    plt.close(figure)


def _dress(panel: Any, x: str, y: str) -> None:
    panel.set(xlabel=x, ylabel=y)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
