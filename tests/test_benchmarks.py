"""What docs/performance.md says of rates, held against the lines that `make bench` left."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import fedloom as fl
from benchmarks import run, vertical_steps
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text()
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_tables_are_those_of_the_lines(workload):
    table = run.table(workload, run.read())
    assert len(table.splitlines()) > 8 and table in PAGE


def test_what_is_read_from_the_tables_is_there():
    def rate(workload, name, column="rounds_per_second"):
        lines = [
            one for one in run.read() if (one["workload"], one["contestant"]) == (workload, name)
        ]
        return run.summary(lines)[column]

    told = " ".join(PAGE[PAGE.index("**Read from them.**") : PAGE.index("Notes. Flower")].split())
    two = "fedloom, two cores"
    for workload, name in (("W1", two), ("W2", "fedloom"), ("W3", two)):
        share = rate(workload, name) / rate(workload, "limit")
        gain = rate(workload, name) / rate(workload, run.BEFORE)
        assert f"at {share:.2f} of the limit, {gain:.1f} times what it was" in told
    chosen = [rate(name, "fedloom") / rate(name, "limit") for name in ("W1", "W3")]
    assert "they are at {:.2f} and at {:.2f}".format(*chosen) in told
    other = ("W2", "PyTorch loop, channels last")
    assert f"{rate('W2', 'fedloom') / rate(*other):.2f} times the PyTorch loop" in told
    cpu = rate("W2", "fedloom", "cpu_ms_per_round") / rate(*other, "cpu_ms_per_round")
    assert f"takes {cpu:.2f} of its CPU time" in told


def test_a_workload_that_is_measured_again_leaves_the_others(tmp_path, monkeypatch):
    times = {"rounds": 10, "wall": 2.0, "cpu": 1.0, "startup": 0.5, "peak_mb": 1.0}
    monkeypatch.setattr(run, "RESULTS", tmp_path / "bench.jsonl")
    monkeypatch.setattr(run, "measure", lambda name, workload, root: times)
    for workloads in (["W1", "W3"], ["W1"]):
        command = ["run", "--workloads", *workloads, "--contestants", "fedloom", "--repeats", "2"]
        monkeypatch.setattr("sys.argv", command)
        run.main()
    assert sorted(line["workload"] for line in run.read()) == ["W1", "W1", "W3", "W3"]


def test_the_readme_has_the_same_figures():
    for workload in WORKLOADS:
        rows = [row.split(" | ") for row in run.table(workload, run.read()).splitlines()]
        rates = {row[0].removeprefix("| "): row[1] for row in rows}
        told = " | ".join(rates[name] for name in ("fedloom", "FedJAX", "pfl", "Flower"))
        assert f" clients | {told} |" in README


def test_the_readme_has_the_figures_of_the_page_on_a_gpu():
    rows = [row.split(" | ") for row in PAGE.partition("## On a GPU")[2].splitlines()]
    rates = {row[0].removeprefix("| "): row[1] for row in rows if len(row) == 5}
    told = f"do {rates['fedloom']} client-rounds per second; FedJAX does {rates['FedJAX']} there"
    assert told in README and f"and pfl {rates['pfl']}." in README


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


def test_the_figures_of_vertical_products_are_those_of_the_lines():
    lines = (ROOT / "docs/verification/vertical-products.jsonl").read_text().splitlines()
    other = (ROOT / "docs/reproductions/vertical.md").read_text()
    for line in map(json.loads, lines):
        shown = f"{line['theirs_ms']:.1f} | {line['fedloom_ms']:.1f} | {line['ratio']:.2f} |"
        (row,) = (text for text in PAGE.splitlines() if text.endswith(shown))
        assert row.startswith(f"| {line['case']}, ")
        assert f"{line['ratio']:.2f}" in other[other.index("## Cost of an iteration") :]


_DOWN = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.01562]


@pytest.mark.parametrize(
    ("largest", "tried"),
    [
        (4.0, [1.0, 2.0, 4.0, 8.0, 16.0, *_DOWN[:2]]),
        (0.5, [1.0, 2.0, *_DOWN[:3]]),
        (0.05, [1.0, 2.0, *_DOWN]),
        (0.0, [1.0, 2.0, *_DOWN]),
    ],
)
def test_steps_are_searched_until_two_are_worse_and_down_until_one_gets_there(largest, tried):
    """Larger steps than this one diverge, and smaller ones are slower."""

    def try_one(method, rounds):
        row = {"round": 10 / method.step, "up": 1.0, "down": 1.0}
        return vertical_steps.Runs([row] if method.step <= largest else [], seeds=1)

    tuner = SimpleNamespace(run=try_one, seeds=1)
    found = vertical_steps.tune(tuner, "GD", fl.algorithms.VerticalGD(step=1.0), 2.0, 100)
    assert [line["step"] for line in found] == tried
