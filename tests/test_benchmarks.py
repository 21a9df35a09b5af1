"""What docs/performance.md says of rates, held against the lines that `make bench` left."""

from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text()
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_tables_are_those_of_the_lines(workload):
    table = run.table(workload, run.read())
    assert len(table.splitlines()) > 8 and table in PAGE


def test_the_readme_has_the_same_figures():
    for workload in WORKLOADS:
        rows = [row.split(" | ") for row in run.table(workload, run.read()).splitlines()]
        rates = {row[0].removeprefix("| "): row[1] for row in rows}
        told = " | ".join(rates[name] for name in ("fedloom", "FedJAX", "pfl", "Flower"))
        assert f" clients | {told} |" in README


def test_a_contestant_without_a_figure_is_named_with_the_reason():
    times = {"rounds": 10, "wall": 2.0, "cpu": 1.0, "startup": 0.5, "peak_mb": 1234.5}
    lines = [
        {"workload": "W1", "contestant": "one", "why": None, **times},
        {"workload": "W1", "contestant": "one", "why": None, **times, "wall": 4.0},
        {"workload": "W1", "contestant": "other", "why": "no result within 900 s"},
        {"workload": "W2", "contestant": "one", "why": "of another table"},
    ]
    table = run.table("W1", lines)
    assert "| one | 3.75 | 2.5 - 5 | 100 | 0.5 | 1230 |" in table
    assert table.endswith("\n\nother: no result within 900 s") and "another" not in table
