"""The weights of clients over the rounds, as a heat map."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedloom.files import write_file
from fedloom.measuring.result import Result

_MOST_NAMES = 30  # more names than this cannot be read beside the rows


def weights(results: Mapping[str, Sequence[Result]], path: str | Path, *, title: str = "") -> None:
    """Draw one panel a method that shows weights: clients down, rounds across.

    Colours are the mean over the seeds. The suffix of `path` chooses PNG or SVG.
    """
    from matplotlib.figure import Figure

    shown = {name: runs for name, runs in results.items() if shows_weights(runs)}
    maps = {name: _mean(runs) for name, runs in shown.items()}
    top = max(float(heat.max()) for _, heat in maps.values())
    figure = Figure(figsize=(1.5 + 3.6 * len(maps), 3.6), layout="constrained")
    panels = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
    for panel, (name, (rounds, heat)) in zip(panels, maps.items(), strict=True):
        mesh = panel.pcolormesh(
            rounds, np.arange(len(heat)), heat, cmap="cividis", vmin=0, vmax=top, shading="nearest"
        )
        panel.set(title=name, xlabel="round")
    panels[0].invert_yaxis()
    names = next(iter(shown.values()))[0].client_names
    if len(names) <= _MOST_NAMES:
        panels[0].set_yticks(range(len(names)), names)
    else:
        panels[0].set_ylabel(f"{len(names)} clients")
    figure.colorbar(mesh, ax=panels.tolist(), label="weight of a client")
    figure.suptitle(title, fontsize=11)
    path = Path(path)
    write_file(
        path,
        lambda temporary: figure.savefig(temporary, format=path.suffix[1:], dpi=150),
        shared=True,
    )


def shows_weights(runs: Sequence[Result]) -> bool:
    """Whether a method shows the weights of clients at its evaluations."""
    return all(any(hasattr(info, "weights") for info in run.info) for run in runs)


def over_rounds(run: Result) -> tuple[np.ndarray, np.ndarray]:
    """The rounds of the evaluations that have weights, and the weights, (clients, rounds)."""
    # Before the first round nothing is shown, and a result from a file has no entry for it.
    pairs = zip(reversed(run.rows), reversed(run.info), strict=False)
    found = [(row["round"], info.weights) for row, info in pairs if hasattr(info, "weights")][::-1]
    rounds, columns = zip(*found, strict=True)
    return np.array(rounds), np.array(columns, float).T


def _mean(runs: Sequence[Result]) -> tuple[np.ndarray, np.ndarray]:
    """Rounds and weights averaged over the seeds, as far as all of them went."""
    histories = [over_rounds(run) for run in runs]
    shortest = min(len(rounds) for rounds, _ in histories)
    heat = np.mean([columns[:, :shortest] for _, columns in histories], axis=0)
    return histories[0][0][:shortest], heat
