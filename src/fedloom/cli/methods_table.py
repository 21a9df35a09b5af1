"""The table of methods that `compare`, `sweep` and `report` print: for people, programs, papers."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedloom.cli.output import bytes_text, show_json, show_table
from fedloom.experiments import paper_tables
from fedloom.experiments.divisions import divisions_text
from fedloom.experiments.rows_of_methods import Asked, Runs
from fedloom.pictures import labels

FORMATS = ("table", "json", *paper_tables.FORMATS)
_BYTES = ("bytes up", "bytes down", "bytes to target")
_COSTS = ("seeds", "bytes up", "bytes down", "seconds", "epsilon", "bytes to target")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """The options that say what stands in the table."""
    parser.add_argument(
        "--metrics",
        metavar="A,B",
        help="columns of the history that the table shows, as `metrics` of [compare] does",
    )
    parser.add_argument(
        "--interval",
        type=float,
        metavar="LEVEL",
        help="show confidence intervals over seeds, as in --interval 0.95",
    )
    parser.add_argument(
        "--paired", metavar="METHOD", help="compare the other methods with one, seed by seed"
    )


def columns_asked(arguments: argparse.Namespace) -> list[str]:
    """The same options as changes of the settings."""
    found = {
        "metrics": arguments.metrics and [name.strip() for name in arguments.metrics.split(",")],
        "interval": arguments.interval,
        "paired": arguments.paired,
    }
    return [f"compare.{name}={json.dumps(v)}" for name, v in found.items() if v is not None]


def show(
    rows: Sequence[Mapping[str, Any]],
    asked: Asked,
    results: Runs,
    format: str,
    *,
    title: str,
    leading: Sequence[str] = (),
) -> None:
    """Print the rows; `leading` columns stand after the method's name."""
    runs = [run for group in results.values() for run in group]
    columns = {name for run in runs for name in run.final}

    def larger(column: str) -> bool:
        return any(run.larger_is_better(column) for run in runs)

    def heading(column: str) -> str:
        return column if format == "table" else labels.label(column, columns)

    if format == "json":
        show_json(rows)
        return
    made = paper_tables.cells(rows, asked, larger, leading, heading)
    if format in paper_tables.FORMATS:
        print(paper_tables.formatted(rows, made, format), end="")
        return
    shown = [
        {name: cell.text for name, cell in line.items()} | _costs(row)
        for line, row in zip(made, rows, strict=True)
    ]
    show_table(shown, title=title)


def over_seeds_text(seeds: int, redivided: bool = False) -> str:
    """How many seeds there are, of which rows, and what the sign between two numbers says."""
    if seeds == 1:
        return "1 seed"
    return (
        f"{seeds} seeds, {divisions_text(redivided)}; mean ± sample standard deviation over seeds"
    )


def _costs(row: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: row[name] for name in _COSTS if row.get(name) is not None}
    return known | {name: bytes_text(known[name]) for name in _BYTES if name in known}
