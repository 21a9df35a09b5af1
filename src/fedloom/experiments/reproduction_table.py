"""The table of a reproduction: the paper's numbers beside those of the raw results.

A row is a method. Beside the last value stand, where they apply, the paper's, the best over rounds,
the optimum of the problem that the method solves and how far off the last value is, and after how
many rounds and bytes the metric stays where it is looked for: within 0.002 of the optimum, beyond
the target, or within 0.002 of its last value. Of several seeds it is the mean with the sample
standard deviation, and of rounds and bytes the median. Where methods have different numbers of
seeds, a column says how many.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedloom.experiments import over_seeds
from fedloom.experiments.paper_tables import Cell, with_spread
from fedloom.experiments.papers import Facts
from fedloom.experiments.raw_results import Raw, Run
from fedloom.pictures import labels

NEAR = 0.002
MARK = "†"  # of methods that were tuned with test figures
_SPREAD = " spread"  # ends the columns that belong to a mean
Row = dict[str, Any]
Wanted = Callable[[float, float], bool]
Found = Mapping[str, float] | None


def rows(raw: Raw, one: Facts, target: float | None) -> list[Row]:
    """The numbers of the table, a row for each method."""
    main, *others = raw.metrics
    made: list[Row] = []
    uneven = len({len(runs) for runs in raw.runs.values()}) > 1
    for method, runs in raw.runs.items():
        row: Row = {"method": _name(method, runs, one)}
        if one.printed:
            row["paper"] = one.printed.get(method)
        if uneven:
            row["seeds"] = len(runs)
        made.append(row)
        if not runs:
            row[labels.label(main)] = "not run"
            continue
        optimum = runs[0].optimum
        row |= {f"round {r}": _mean([_at(run, main, r) for run in runs]) for r in one.rounds}
        row |= _over_seeds(labels.label(main), [_last(run, main) for run in runs])
        if main not in labels.LOGARITHMIC:
            best = max if raw.larger_is_better else min
            row |= _over_seeds("best over rounds", [best(_values(run, main)) for run in runs])
        if _optima_known(raw):
            row["optimum"] = optimum
            last = row[labels.label(main)]
            row["off"] = None if optimum is None or last is None else last - optimum
        if (wanted := _wanted(raw, optimum, target)) is not None:
            if target is not None and main not in labels.LOGARITHMIC:
                row |= _when("first there", [_first(run, main, wanted) for run in runs])
            since = [_since(run, main, wanted) for run in runs]
            row |= _when("rounds to stay", since) | {"bytes": _sent(since)}
        for metric in others:
            row |= _over_seeds(labels.label(metric), [_last(run, metric) for run in runs])
    return made


def cells(made: Sequence[Row]) -> list[dict[str, Cell]]:
    """The same as texts: a spread stands behind its mean."""
    longest = sorted(made, key=len, reverse=True)  # a method that was not run has few columns
    names = dict.fromkeys(n for row in longest for n in row if not n.endswith(_SPREAD))
    return [{name: Cell(_text(name, row)) for name in names} for row in made]


def caption(raw: Raw, one: Facts, target: float | None) -> str:
    """What the columns mean, as a sentence for people."""
    main = labels.label(raw.metrics[0])
    seeds = {len(runs) for runs in raw.runs.values()}
    if _optima_known(raw):
        stays = f"within {NEAR} of the optimum of the problem that the method solves"
    elif target is not None:
        stays = f"at {target:g} or {'more' if raw.larger_is_better else 'less'}"
        if raw.metrics[0] not in labels.LOGARITHMIC:
            stays += " (first there: the first round at which it is)"
    elif raw.metrics[0] not in labels.LOGARITHMIC:
        stays = f"within {NEAR} of its last value"
    else:
        stays = ""
    text = f"{main} after {_rounds(raw)} rounds"
    over = f"{max(seeds)} seeds" if len(seeds) == 1 else "as many seeds as were run"
    text += ", 1 seed" if seeds == {1} else f", mean ± sample deviation over {over}"
    if stays:
        text += f"; rounds and bytes, both ways, from which on it stays {stays}"
    if one.printed:
        text += f"; the paper prints {'the best over rounds' if one.best else 'the last value'}"
    if one.tuned_on_test:
        text += f"; {MARK} parameters were chosen with test figures"
    return text + "."


def _optima_known(raw: Raw) -> bool:
    return any(run.optimum is not None for runs in raw.runs.values() for run in runs)


def _name(method: str, runs: Sequence[Run], one: Facts) -> str:
    """The method's name with what must be known of its runs."""
    diverged = sum(run.status == "diverged" for run in runs)
    remark = f" ({diverged} of {len(runs)} diverged)" if diverged else ""
    return f"{method}{remark} {MARK}" if method in one.tuned_on_test else f"{method}{remark}"


def _over_seeds(name: str, values: Sequence[float | None]) -> Row:
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return {name: None, f"{name}{_SPREAD}": None}
    return {name: statistics.fmean(known), f"{name}{_SPREAD}": over_seeds.spread(known)}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _values(run: Run, metric: str) -> list[float]:
    return [value for value in run.columns[metric] if value is not None]


def _last(run: Run, metric: str) -> float | None:
    values = _values(run, metric)
    return values[-1] if values else None


def _at(run: Run, metric: str, looked: int) -> float | None:
    """The value at a round, if it was evaluated there."""
    by_round = dict(zip(run.columns["round"], run.columns[metric], strict=True))
    return by_round.get(looked)


def _rounds(raw: Raw) -> int:
    return max(int(run.columns["round"][-1] or 0) for runs in raw.runs.values() for run in runs)


def _wanted(raw: Raw, optimum: float | None, target: float | None) -> Wanted | None:
    """Whether a value is where it is looked for, given the last one."""
    larger = raw.larger_is_better
    if optimum is not None:
        return lambda value, last: abs(value - optimum) <= NEAR
    if target is not None:
        return lambda value, last: over_seeds.reaches(value, target, larger)
    if raw.metrics[0] in labels.LOGARITHMIC:  # values of many sizes: no distance fits all
        return None
    return lambda value, last: abs(value - last) <= NEAR


def _first(run: Run, metric: str, wanted: Wanted) -> Found:
    """The first evaluation at which the metric is where it is looked for."""
    rows = [row for row in run.rows if metric in row]
    return next((row for row in rows if wanted(row[metric], rows[-1][metric])), None)


def _since(run: Run, metric: str, wanted: Wanted) -> Found:
    """The evaluation from which on it stays there."""
    rows = [row for row in run.rows if metric in row]
    since = None
    for row in reversed(rows):
        if not wanted(row[metric], rows[-1][metric]):
            break
        since = row
    return since


def _when(name: str, found: Sequence[Found]) -> Row:
    """The median round, and how many seeds came there if not all."""
    known = [row["round"] for row in found if row is not None]
    if not known:
        return {name: "not reached"}
    middle = int(statistics.median(known))
    some = f"{middle} ({len(known)} of {len(found)} seeds)"
    return {name: middle if len(known) == len(found) else some}


def _sent(found: Sequence[Found]) -> int | None:
    """The median of what was sent until then, both ways."""
    known = [row["bytes_up"] + row["bytes_down"] for row in found if row is not None]
    return int(statistics.median(known)) if known else None


def _text(name: str, row: Row) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if name == "bytes":
        return labels.bytes_text(value)
    if name == "off":
        return f"{value:+.4f}"
    if isinstance(value, float):
        return with_spread(value, row.get(f"{name}{_SPREAD}"))
    return str(value)
