"""The table at the top of a report, and what it says in a sentence."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedloom.directions import base
from fedloom.measuring.result import Result
from fedloom.pictures import labels
from fedloom.reports.reading import Study

_MOST_METRICS = 5  # more do not fit a laptop; the pictures show all


class Cell(NamedTuple):
    """What stands in the table."""

    text: str
    spread: str = ""  # the standard deviation over seeds
    best: bool = False


class Summary(NamedTuple):
    """A row for each method."""

    columns: list[str]
    rows: list[tuple[str, str, list[Cell]]]  # name, a remark, the cells
    sentence: str

    @property
    def spread(self) -> bool:
        """Whether there are seeds to compare."""
        return any(cell.spread for _, _, cells in self.rows for cell in cells)


def summarise(study: Study) -> Summary:
    """The final metrics of each method, the best of them marked, and what they cost."""
    columns = _columns(study)
    values = {name: [_values(runs, name) for runs in study.methods.values()] for name in columns}
    best = {name: _best(study, name, values[name]) for name in columns}
    rows = [
        (
            name,
            _remark(runs),
            [_cell(values[column][i], i in best[column]) for column in columns]
            + [Cell(text) for text in _costs(runs)],
        )
        for i, (name, runs) in enumerate(study.methods.items())
    ]
    titles = [labels.label(column) for column in columns]
    return Summary([*titles, "Rounds", "Sent", "Seconds"], rows, _sentence(study, values, best))


def _columns(study: Study) -> list[str]:
    """Each metric, and the worst client's value of it; those that all runs have come first."""
    names = [
        name
        for name in labels.metrics(study.columns)
        if name == base(name) or name.endswith("_worst")
    ]
    names.sort(key=lambda name: not all(name in run.final for run in study.runs))
    return names[:_MOST_METRICS]


def _values(runs: Sequence[Result], column: str) -> list[float]:
    found = [run.final.get(column) for run in runs]
    return [float("nan") if value is None else value for value in found]


def _best(study: Study, column: str, values: list[list[float]]) -> set[int]:
    """Which methods show the best value; none where there is nothing to choose from."""
    if len(values) < 2 or column == "sparsity":
        return set()
    sign = 1 if any(run.larger_is_better(column) for run in study.runs) else -1
    means = [statistics.fmean(entry) for entry in values]
    known = [sign * mean for mean in means if mean == mean]
    if len(known) < 2:
        return set()
    shown = labels.number(sign * max(known))
    return {i for i, mean in enumerate(means) if labels.number(mean) == shown}


def _cell(values: list[float], best: bool) -> Cell:
    if not np.isfinite(values).all():
        return Cell("n/a")  # not measured, or no longer a number
    spread = labels.number(statistics.stdev(values), 2) if len(values) > 1 else ""
    return Cell(labels.number(statistics.fmean(values)), spread, best)


def _costs(runs: Sequence[Result]) -> list[str]:
    def mean(*names: str) -> float:
        return statistics.fmean(sum(run.final[name] for name in names) for run in runs)

    sent = labels.bytes_text(mean("bytes_up", "bytes_down"))
    return [f"{mean('round'):.0f}", sent, labels.number(mean("seconds"), 3)]


def _remark(runs: Sequence[Result]) -> str:
    odd = [run.status for run in runs if run.status != "done"]
    if not odd:
        return ""
    return f"{len(odd)} of {len(runs)} {odd[0]}" if len(runs) > 1 else odd[0]


def _sentence(study: Study, values: dict[str, list[list[float]]], best: dict[str, set[int]]) -> str:
    names, runs = list(study.methods), study.runs
    seeds = max(len(entry) for entry in study.methods.values())
    rounds = max(int(run.final["round"]) for run in runs)
    text = (
        f"{_count(len(names), 'method')} on {_count(len(runs[0].client_names), 'client')}, "
        f"{_count(rounds, 'round')}, {_count(seeds, 'seed')}."
    )
    for column in list(values)[:2]:
        leaders = sorted(best[column]) if len(names) > 1 else [0]
        if len(leaders) == 1:
            value = labels.number(statistics.fmean(values[column][leaders[0]]))
            metric, _, part = labels.label(column).partition(", ")
            what = f"{metric} for the {part}" if part else metric
            winner = f"{names[leaders[0]]} has the best {_inside(what)}" if len(names) > 1 else what
            text += f" {winner}: {value}."
    joined = runs[0].about.get("alignment")
    return f"{text} {joined[0].upper()}{joined[1:]}." if joined else text


def _inside(text: str) -> str:
    """A label in the middle of a sentence."""
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
