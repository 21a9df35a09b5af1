"""A table and a picture of how many rows each client holds, by class."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.clients import Clients, class_counts, class_names
from fedloom.errors import DataError
from fedloom.files import write_file

if TYPE_CHECKING:
    import polars as pl

# Paul Tol's muted scheme: told apart by every common kind of colour vision.
_COLOURS = (
    *("#332288", "#88CCEE", "#44AA99", "#117733", "#999933"),
    *("#DDCC77", "#CC6677", "#882255", "#AA4499", "#BBBBBB"),
)
_MOST_NAMES = 30  # more names than this cannot be read below the bars


def table(clients: Clients) -> "pl.DataFrame":
    """A table with a row for each client: its name, numbers of training and test rows, and classes.

    Args:
        clients: The clients and their data.
    """
    import polars as pl

    return pl.DataFrame(clients.holdings())


def picture(clients: Clients, path: Path | str) -> None:
    """Draw a bar for each client, stacked by class, and write it to a file.

    Args:
        clients: The clients and their data.
        path: The file to write, .png or .svg.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg"):
        raise DataError(
            f"{path}: a picture must be .png or .svg; got {path.suffix!r}. Change the suffix."
        )
    figure = draw(clients)
    write_file(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=150), shared=True)


def draw(clients: Clients) -> Any:
    """The picture as a Matplotlib figure."""
    from matplotlib.figure import Figure

    counts = class_counts(clients)
    colours = _colours(counts.shape[1])
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylabel("training rows")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(-0.6, len(clients) - 0.4)
    if len(clients) <= _MOST_NAMES:
        crowded = len(clients) * max(map(len, clients.names)) > 80
        axes.set_xticks(range(len(clients)), clients.names, rotation=90 if crowded else 0)
    else:
        axes.set_xlabel(f"{len(clients)} clients")
    tops = counts.cumsum(axis=1)
    layers = [
        _stack(axes, top, top - column, colour)
        for top, column, colour in zip(tops.T, counts.T, colours, strict=True)
    ]
    axes.set_ylim(0, 1.05 * tops[:, -1].max())
    if 1 < counts.shape[1] <= len(_COLOURS):
        axes.legend(
            layers[::-1],  # in the order in which they are stacked
            class_names(clients)[::-1],
            title="class",
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            frameon=False,
        )
    elif counts.shape[1] > 1:
        _add_colour_bar(figure, axes, colours, class_names(clients))
    return figure


def _stack(axes: Any, tops: np.ndarray, bases: np.ndarray, colour: Any) -> Any:
    """One class in all bars: apart where names stand below them, else as one outline."""
    places = np.arange(len(tops))
    if len(tops) <= _MOST_NAMES:
        return axes.bar(places, tops - bases, bottom=bases, color=colour)
    edges = np.append(places, len(tops)) - 0.5
    return axes.stairs(tops, edges, baseline=bases, fill=True, color=colour)


def _colours(count: int) -> list[Any]:
    from matplotlib import colormaps

    if count <= len(_COLOURS):
        return list(_COLOURS[:count])
    return list(colormaps["viridis"](np.linspace(0, 1, count)))


def _add_colour_bar(figure: Any, axes: Any, colours: list[Any], names: list[str]) -> None:
    """A bar in the place of a legend that would be too long to read."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    norm = BoundaryNorm(np.arange(len(names) + 1) - 0.5, len(names))
    bar = figure.colorbar(ScalarMappable(norm, ListedColormap(colours)), ax=axes, label="class")
    shown = np.unique(np.linspace(0, len(names) - 1, 10).astype(int))
    bar.set_ticks(shown, labels=[names[i] for i in shown])
