"""The table at the top of a report, with the sentences around it."""

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedloom.experiments import over_seeds, paper_tables, rows_of_methods
from fedloom.experiments.divisions import divisions_text
from fedloom.experiments.rows_of_methods import values_of
from fedloom.measuring.result import Result
from fedloom.metrics.chosen import ROWS, base
from fedloom.pictures import labels
from fedloom.reports import origins
from fedloom.reports.reading import Study

_OF = {"": "", "all rows": " over all rows"}  # what a label says after its comma, in a sentence
_MOST_METRICS = 5  # more do not fit a laptop; the pictures show all


class Cell(NamedTuple):
    """What stands in the table."""

    text: str
    spread: str = ""  # the standard deviation over seeds
    best: bool = False
    interval: str = ""  # the confidence interval of the mean


class Summary(NamedTuple):
    """A row for each method."""

    columns: list[str]
    rows: list[tuple[str, str, list[Cell]]]  # name, a remark, the cells
    sentence: str
    seeds: str  # how many each method has
    interval: str  # the level of confidence intervals; empty where there are none
    differences: list[dict[str, str]]  # from one method, seed by seed: a row for each other
    origin: str  # on which rows figures are, and where they were computed
    prepared: dict[str, Any] | None  # the columns of the tables of sites

    @property
    def spread(self) -> bool:
        """Whether there are seeds to compare."""
        return any(cell.spread for _, _, cells in self.rows for cell in cells)


def summarise(study: Study) -> Summary:
    """The final metrics of each method, the best of them marked, and what they cost."""
    columns = _columns(study)
    values = {name: [values_of(runs, name) for runs in study.methods.values()] for name in columns}
    level = study.asked.interval
    best = {name: _best(study, name, values[name]) for name in columns}
    rows = [
        (
            name,
            _remark(runs),
            [_cell(values[column][i], i in best[column], level) for column in columns]
            + [Cell(text) for text in _costs(runs)],
        )
        for i, (name, runs) in enumerate(study.methods.items())
    ]
    counts = sorted({len(runs) for runs in study.methods.values()})
    return Summary(
        [*map(study.label, columns), "Rounds", "Sent", "Seconds"],
        rows,
        _sentence(study, values, best),
        " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))),
        "" if level is None else f"{100 * level:.4g}%",
        _differences(study),
        origins.said(study),
        origins.columns(study),
    )


def _columns(study: Study) -> list[str]:
    """What is asked for; then each metric over clients and rows, and the worst client's value.

    Of the others, those that all runs have come first.
    """
    asked = [name for name in study.asked.metrics if name in study.columns]
    names = [
        name
        for name in labels.metrics(study.columns)
        if name == base(name) or name.endswith(("_worst", ROWS))
    ]
    names.sort(key=lambda name: not all(name in run.final for run in study.runs))
    return list(dict.fromkeys((*asked, *names)))[: max(_MOST_METRICS, len(asked))]


def _differences(study: Study) -> list[dict[str, str]]:
    """How far methods are from the one that they are paired with."""
    asked = study.asked
    if asked.paired is None:
        return []
    made = zip(study.methods, rows_of_methods.table(study.methods, asked), strict=True)
    rows = []
    for name, row in made:
        if name != asked.paired:
            shown = {"Method": name}
            for metric in asked.metrics:
                shown |= paper_tables.apart(row, asked, metric, study.label(metric))
            rows.append(shown)
    return rows


def _best(study: Study, column: str, values: list[list[float]]) -> set[int]:
    """Which methods show the best value; none where there is nothing to choose from."""
    if len(values) < 2 or column == "sparsity":
        return set()
    larger = any(run.larger_is_better(column) for run in study.runs)
    means, spreads = map(statistics.fmean, values), map(over_seeds.spread, values)
    return paper_tables.best_of(list(means), larger, list(spreads))


def _cell(values: list[float], best: bool, level: float | None) -> Cell:
    if not np.isfinite(values).all():
        return Cell("n/a")  # not measured, or no longer a number
    text = paper_tables.with_spread(statistics.fmean(values), over_seeds.spread(values))
    mean, _, spread = text.partition(" ± ")
    ends = None if level is None else over_seeds.interval(values, level)
    return Cell(mean, spread, best, "" if ends is None else paper_tables.ends(*ends))


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
    of_rows = f", {divisions_text(study.redivided)}" if seeds > 1 else ""
    holders = _count(len(runs[0].client_names), origins.noun(study))
    text = (
        f"{_count(len(names), 'method')} on {holders}, "
        f"{_count(rounds, 'round')}, {_count(seeds, 'seed')}{of_rows}."
    )
    main, *others = values
    worst = [column for column in others if column.endswith("_worst")][:1]
    for column in (main, *worst):
        leaders = sorted(best[column]) if len(names) > 1 else [0]
        if len(leaders) == 1:
            value = labels.number(statistics.fmean(values[column][leaders[0]]))
            metric, _, part = labels.label(column).partition(", ")
            what = metric + _OF.get(part, f" for the {part}")
            winner = f"{names[leaders[0]]} has the best {_inside(what)}" if len(names) > 1 else what
            text += f" {winner}: {value}."
    joined = runs[0].about.get("alignment")
    return f"{text} {joined[0].upper()}{joined[1:]}." if joined else text


def _inside(text: str) -> str:
    """A label in the middle of a sentence."""
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
