"""Tables of methods as people print them: mean and spread in a cell, the best values marked.

Markdown and LaTeX have cells such as 0.912 ± 0.003, bold where no method is better. CSV has the
numbers themselves, each in a column of its own, for a program that makes its own table.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fedloom.experiments.rows_of_methods import LEVEL, Asked
from fedloom.pictures import labels

FORMATS = ("csv", "latex", "markdown")
_MOST_DECIMALS = 6
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
Row = Mapping[str, Any]
Larger = Callable[[str], bool]


class Cell(NamedTuple):
    """What stands in a table."""

    text: str
    best: bool = False


def formatted(rows: Sequence[Row], made: Sequence[Mapping[str, Cell]], format: str) -> str:
    """A table in one of the FORMATS, from its rows and from the cells that were made of them."""
    if format == "csv":
        return _csv(rows)
    return _latex(made) if format == "latex" else _markdown(made)


def cells(
    rows: Sequence[Row],
    asked: Asked,
    larger: Larger,
    leading: Sequence[str] = (),
    heading: Callable[[str], str] = labels.label,
) -> list[dict[str, Cell]]:
    """For each method its cells by their headings; `leading` columns stand after its name."""
    best = {
        metric: best_of(
            [row[metric] for row in rows],
            larger(metric),
            [row.get(asked.named(metric, "spread")) for row in rows],
        )
        for metric in asked.metrics
    }
    return [
        {name: Cell(_value(row.get(name))) for name in ("method", *leading)}
        | {
            name: Cell(text, i in best[metric] and name == heading(metric))
            for metric in asked.metrics
            for name, text in _of_metric(row, asked, metric, heading(metric)).items()
        }
        | {name: Cell(_value(row[name])) for name in ("reached", "rounds to target") if name in row}
        for i, row in enumerate(rows)
    ]


def _of_metric(row: Row, asked: Asked, metric: str, heading: str) -> dict[str, str]:
    """What a table says of one metric, by heading."""
    found = {heading: with_spread(row[metric], row.get(asked.named(metric, "spread")))}
    if asked.interval is not None:
        low, high = (row.get(asked.named(metric, f"interval {end}")) for end in ("low", "high"))
        found[f"{heading} ({100 * asked.interval:.4g}% interval)"] = ends(low, high)
    return found | apart(row, asked, metric, heading)


def apart(row: Row, asked: Asked, metric: str, heading: str) -> dict[str, str]:
    """How far a method is from the one that it is paired with, by heading."""
    if asked.paired is None:
        return {}
    level = 100 * (asked.interval or LEVEL)
    middle, low, high, p = (
        row.get(asked.named(metric, part))
        for part in ("difference", "difference low", "difference high", "p")
    )
    return {
        f"{heading} less {asked.paired} ({level:.4g}% interval)": ends(low, high, middle),
        f"{heading} (p)": _value(p),
    }


def with_spread(mean: float, spread: float | None) -> str:
    """A mean with as many decimals as its spread has digits that count, two; and the spread."""
    if spread is None:
        return labels.number(mean)
    decimals = 1 - math.floor(math.log10(spread)) if spread > 0 else _MOST_DECIMALS
    if spread == 0 or decimals > _MOST_DECIMALS:
        return f"{labels.number(mean)} ± {labels.number(spread, 2)}"
    decimals = max(decimals, 0)
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}"


def ends(low: float | None, high: float | None, middle: float | None = None) -> str:
    """An interval in brackets, after the number that it is about."""
    if low is None or high is None:
        return "" if middle is None else labels.number(middle)
    text = f"[{labels.number(low)}, {labels.number(high)}]"
    return text if middle is None else f"{labels.number(middle)} {text}"


def best_of(
    means: Sequence[float], larger_is_better: bool, spreads: Sequence[float | None] | None = None
) -> set[int]:
    """The places of the best values, as they are shown; none where there is nothing to choose."""
    known = [mean for mean in means if mean == mean]
    if len(known) < 2:
        return set()
    best = max(known) if larger_is_better else min(known)
    if not math.isfinite(best):
        return set()
    texts = [
        with_spread(mean, spread).partition(" ± ")[0]
        for mean, spread in zip(means, spreads or [None] * len(means), strict=True)
    ]
    shown = {text for mean, text in zip(means, texts, strict=True) if mean == best}
    return {i for i, text in enumerate(texts) if text in shown}


def _value(value: Any) -> str:
    if value is None:
        return ""
    return labels.number(value, 3) if isinstance(value, float) else str(value)


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(rows: Sequence[Mapping[str, Cell]]) -> str:
    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    names = list(rows[0])
    body = [
        line([f"**{cell.text}**" if cell.best else cell.text for cell in row.values()])
        for row in rows
    ]
    return "\n".join([line(names), line(["---"] * len(names)), *body]) + "\n"


def _latex(rows: Sequence[Mapping[str, Cell]]) -> str:
    """With the rules of the package booktabs."""
    lines = [[_escaped(name) for name in rows[0]]]
    lines += [[_in_latex(cell) for cell in row.values()] for row in rows]
    head, *body = (" & ".join(line) + r" \\" for line in lines)
    columns = "l" + "r" * (len(rows[0]) - 1)
    return (
        "\n".join(
            [
                "% needs \\usepackage{booktabs}",
                rf"\begin{{tabular}}{{{columns}}}",
                *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
                r"\end{tabular}",
            ]
        )
        + "\n"
    )


def _in_latex(cell: Cell) -> str:
    text = _escaped(cell.text).replace("±", r"$\pm$")
    text = re.sub(r"(?<![\w.])-(?=\d)", "$-$", text)  # a minus, not a hyphen
    return rf"\textbf{{{text}}}" if cell.best else text


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
