"""The table of methods as it is printed: several metrics, seeds, and formats for papers."""

import csv
import io
import json
import re

import numpy as np
import pytest
from scipy import stats

import fedloom as fl
from fedloom.cli.main import main
from fedloom.reports.reading import read
from fedloom.reports.summary import summarise

SETTINGS = """
data = { name = "iris" }
partition = { scheme = "label", clients = 3, classes_each = 2, test_fraction = 0.3 }
problem = { kind = "multinomial", weights = "size" }

[[algorithm]]
key = "fedavg"
lr = 0.1

[[algorithm]]
name = "a_slow & 50% one"
key = "fedavg"
lr = 1e-6

[run]
rounds = 3
metrics = ["accuracy", "loss", "f1"]

[compare]
seeds = 3
metrics = ["loss_rows", "f1"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("tables")
    (root / "s.toml").write_text(SETTINGS)
    assert main(["compare", str(root / "s.toml"), "--out", str(root / "o")]) == 0
    return root


def printed(folder, capsys, *options, verb="compare"):
    capsys.readouterr()
    source = ["--resume", str(folder / "o")] if verb == "compare" else [str(folder / "o")]
    assert main([verb, *source, *options]) == 0
    return capsys.readouterr().out


def finals(folder, method, metric):
    return [fl.load(folder / "o" / method / f"seed-{s}").final[metric] for s in range(3)]


def test_json_has_means_spreads_and_the_number_of_seeds(folder, capsys):
    fast, slow = json.loads(printed(folder, capsys, "--format", "json"))
    values = finals(folder, "fedavg", "loss_rows")
    assert fast["loss_rows"] == pytest.approx(np.mean(values))
    assert fast["spread"] == pytest.approx(np.std(values, ddof=1)) and fast["seeds"] == 3
    f1 = finals(folder, "fedavg", "f1")
    assert fast["f1 spread"] == pytest.approx(np.std(f1, ddof=1))
    assert "interval low" not in fast and "difference" not in slow


def test_the_printed_table_shows_several_metrics(folder, capsys):
    text = printed(folder, capsys)
    assert (
        "After 3 rounds, 3 seeds, one division; mean ± sample standard deviation over seeds" in text
    )
    assert re.search(r"loss_rows +.*f1", text) and text.count("±") == 1 + 2 * 2
    text = printed(folder, capsys, "--format", "table", "--metrics", "accuracy", verb="report")
    assert "3 seeds" in text and "accuracy" in text and "f1" not in text


def test_intervals_and_paired_differences_on_request(folder, capsys):
    asked = ("--interval", "0.9", "--paired", "fedavg", "--format", "json")
    for verb in ("report", "compare"):
        fast, slow = json.loads(printed(folder, capsys, *asked, verb=verb))
        values = finals(folder, "fedavg", "loss_rows")
        low, high = stats.t.interval(0.9, 2, np.mean(values), stats.sem(values))
        assert (fast["interval low"], fast["interval high"]) == pytest.approx((low, high))
        test = stats.ttest_rel(finals(folder, slow["method"], "loss_rows"), values)
        assert slow["p"] == pytest.approx(test.pvalue) and fast["p"] is None
        assert slow["difference low"] == pytest.approx(test.confidence_interval(0.9).low)
    (study,) = read([folder / "o"])  # the settings have it now
    summary = summarise(study)
    assert summary.interval == "90%" and "F1 less fedavg (90% interval)" in summary.differences[0]


def test_markdown_and_latex_mark_the_best(folder, capsys):
    options = ("--metrics", "accuracy,accuracy_rows,loss_rows")
    head, rule, fast, _ = printed(
        folder, capsys, *options, "--format", "markdown", verb="report"
    ).splitlines()
    columns = ["Accuracy, mean over clients", "Accuracy, all rows", "Loss, all rows"]
    shown = [name for name in head.strip("| ").split(" | ") if "(" not in name]
    assert shown == ["method", *columns]
    assert set(rule) <= set("|- ") and "**" in fast and "±" in fast
    losses = finals(folder, "fedavg", "loss_rows"), finals(folder, "a_slow & 50% one", "loss_rows")
    assert np.mean(losses[0]) < np.mean(losses[1])
    assert re.search(r"\*\*\d\.\d+ ± \d\.\d+\*\*", fast)
    latex = printed(folder, capsys, *options, "--format", "latex", verb="report")
    assert r"\begin{tabular}" in latex and r"a\_slow \& 50\% one" in latex
    assert re.search(r"\\textbf\{\d\.\d+ \$\\pm\$ \d\.\d+\}", latex) and "±" not in latex
    assert latex.count(r"\\") == 3 and latex.rstrip().endswith(r"\end{tabular}")


def test_csv_has_the_numbers_themselves(folder, capsys):
    text = printed(folder, capsys, "--format", "csv", "--metrics", "loss", verb="report")
    fast, slow = csv.DictReader(io.StringIO(text))
    assert float(fast["loss"]) == np.mean(finals(folder, "fedavg", "loss"))
    assert slow["method"] == "a_slow & 50% one" and float(slow["spread"]) >= 0


@pytest.mark.parametrize(
    "options,complaint",
    [
        (["--metrics", "f1_wrost"], "got 'f1_wrost'. Did you mean 'f1_worst'"),
        (["--metrics", "brier"], "Add 'brier' to metrics in [run]"),
        (["--paired", "fedvag"], "got 'fedvag'. Did you mean 'fedavg'"),
        (["--interval", "95"], "interval must be a number between 0 and 1"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_runs(options, complaint, folder, capsys):
    out = ["--out", str(folder / "never"), "--set", "run.rounds=1000000"]
    assert main(["compare", str(folder / "s.toml"), *out, *options]) == 2
    assert complaint in capsys.readouterr().err


def test_a_report_refuses_columns_that_nobody_measured(folder, capsys):
    assert main(["report", str(folder / "o"), "--metrics", "f2"]) == 2
    assert "got 'f2'. Did you mean 'f1'" in capsys.readouterr().err


def test_one_seed_has_no_spread(folder, capsys):
    out = ["--out", str(folder / "one"), "--set", "compare.seeds=1"]
    assert main(["compare", str(folder / "s.toml"), *out]) == 0
    text = capsys.readouterr().out
    assert "After 3 rounds, 1 seed " in text and "±" not in text


def test_the_page_says_that_values_are_means_over_seeds(folder):
    assert main(["report", str(folder / "o"), "--metrics", "loss_rows,f1"]) == 0
    page = (folder / "o" / "report.html").read_text()
    assert "They are means over 3 seeds; ± is the sample standard deviation over seeds." in page
    assert "Values are means over 3 seeds." in page  # in the table of the clients
    first = re.search(r'<thead><tr><th scope="col">Method</th><th scope="col">([^<]+)', page)
    assert first.group(1) == "Loss, all rows"
