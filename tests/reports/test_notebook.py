"""Results in a notebook: tables, pictures, and the tutorial."""

import io
import runpy
from pathlib import Path

import pytest
from rich.console import Console

import fedloom as fl
from reports import studies

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def comparison():
    methods = {"<b>": fl.algorithms.FedAvg(lr=0.1), "prox": fl.algorithms.FedProx(lr=0.1, mu=0.1)}
    return fl.compare(methods, fl.problems.Logistic(), studies.clients(), rounds=4, seeds=(0, 1))


def printed(thing):
    console = Console(file=io.StringIO(), width=120)
    console.print(thing)
    return console.file.getvalue()


def test_a_result_shows_itself_as_a_table(comparison):
    result = comparison.results["<b>"][0]
    accuracy = f"{result.final['accuracy']:.4g}"
    for shown in (result._repr_html_(), printed(result)):
        assert "Accuracy" in shown and accuracy in shown
        assert "FedAvg, 4 clients, 4 rounds" in shown and ": done" in shown
    assert repr(result).startswith("<Result: FedAvg, 4 clients, 4 rounds")


def test_a_comparison_shows_itself_as_a_table(comparison):
    html = comparison._repr_html_()
    assert "<td>&lt;b&gt;</td>" in html and "<b>" not in html
    assert "prox" in printed(comparison)


def test_pictures_are_shown_and_saved(comparison, tmp_path):
    result = comparison.results["prox"][0]
    pictures = (
        result.plot(),
        result.plot("loss", "accuracy_worst", against="seconds", log=True),
        comparison.plot(title="Two methods"),
        fl.partition_plot(studies.clients()),
    )
    for picture in pictures:
        assert picture._repr_png_().startswith(b"\x89PNG")
    for suffix, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        pictures[0].save(tmp_path / f"a.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes().startswith(start)
    with pytest.raises(fl.FedloomError, match=r"must be \.png, \.svg or \.pdf; got '\.txt'"):
        pictures[0].save(tmp_path / "a.txt")


def test_holdings_and_what_a_method_shows_survive_saving(tmp_path):
    run = fl.simulate(
        studies.Favouring(lr=0.1), fl.problems.Logistic(), studies.clients(), rounds=6, eval_every=2
    )
    run.save(tmp_path / "run")
    kept = fl.load(tmp_path / "run")
    assert kept.holdings["rows"] == [30] * 4 and kept.holdings["client"] == list(run.client_names)
    assert kept.info[0] == () and len(kept.info) == len(kept.rows) == 4
    assert kept.info[3].weights.tolist() == run.info[3].weights.tolist()


def test_the_tutorial_runs():
    marimo = pytest.importorskip("marimo", reason="marimo is not installed")
    tutorial = runpy.run_path(str(ROOT / "examples" / "tutorial.py"))
    assert isinstance(tutorial["app"], marimo.App)
    _, names = tutorial["app"].run()
    comparison = names["comparison"]
    final = {name: runs[0].final for name, runs in comparison.results.items()}
    assert final["SCAFFOLD"]["loss"] < final["FedAvg"]["loss"]
