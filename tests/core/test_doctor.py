"""`fedloom doctor`: its answers are those of the listings, and it notices what is wrong."""

import json

import jax
import numpy as np
import pytest

from fedloom import versions
from fedloom.algorithms.catalogue import CATALOGUE, entry
from fedloom.cli.main import main
from fedloom.doctor import environment, examine, known_answers
from fedloom.rounds import native_meetings
from papers.known_answers import answers as transcribed
from tiers import thorough


def test_the_answers_are_those_of_the_transcribed_listings(double):
    made, kept = transcribed(), known_answers.answers()
    assert set(made) == set(kept) == set(known_answers.tasks())
    for key, answer in made.items():
        np.testing.assert_allclose(kept[key], answer, rtol=1e-13, atol=1e-13)


def test_every_family_has_an_answer():
    families = {entry(key).family for key in known_answers.tasks()}
    assert families == {method.family for method in CATALOGUE.values()}
    for key, task in known_answers.tasks().items():
        assert type(task.algorithm) is entry(key).cls and task.family == entry(key).family


def one_task(monkeypatch):
    """The doctor with one task, so that a test compiles one program."""
    task = known_answers.tasks()["egvfl"]._replace(precisions=("float64",))
    monkeypatch.setattr(known_answers, "tasks", lambda: {"egvfl": task})


@pytest.mark.parametrize("tasks", ["one", pytest.param("all", marks=thorough)])
def test_all_is_well_here(tasks, monkeypatch, capsys):
    if tasks == "one":
        one_task(monkeypatch)
    assert main(["doctor", "--format", "json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in findings} <= {"right", "note"}
    solved = [row["name"].split(",")[0] for row in findings if "float64" in row["name"]]
    assert set(solved) == {*known_answers.tasks(), "mapped sum"}


def test_a_wrong_number_is_found_and_the_exit_status_says_so(monkeypatch, capsys):
    one_task(monkeypatch)
    right = known_answers.solve
    monkeypatch.setattr(known_answers, "solve", lambda *task: right(*task) + 1e-9)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr()
    assert "✗" in shown.out and "off by" in shown.out and "1 of" in shown.err


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_number_that_is_none_is_wrong(wrong, monkeypatch):
    one_task(monkeypatch)
    monkeypatch.setattr(known_answers, "solve", lambda *task: np.full(6, wrong))
    found = {f.name: f.verdict for f in known_answers.solve_on_every_device()}
    assert [v for name, v in found.items() if name.startswith("egvfl")] == ["wrong"]


def test_programs_of_other_classes_are_found(monkeypatch):
    assert known_answers._caches("cpu").verdict == "right"
    monkeypatch.setattr(jax, "jit", lambda function: lambda node: 0.0)  # the first one's, for all
    finding = known_answers._caches("cpu")
    assert finding.verdict == "wrong" and finding.found.startswith("59 of 60 ")


def test_a_version_known_to_be_wrong_is_named(monkeypatch):
    bad = versions.WrongVersion("numpy", np.__version__, "it adds wrongly", "another one")
    monkeypatch.setattr(environment, "KNOWN_WRONG", (bad,))
    found = {f.name: f for f in examine() if f.section == "versions"}
    assert found["numpy"].verdict == "wrong"
    assert found["numpy"].advice == "it adds wrongly; install another one"
    assert found["jax"].verdict == "right"


def test_folders(monkeypatch, tmp_path):
    def folders():
        return {f.name: f for f in examine() if f.section == "folders"}

    monkeypatch.setenv("FEDLOOM_CACHE", "off")
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path / "nowhere"))
    assert (folders()["cache"].found, folders()["cache"].verdict) == ("off", "note")
    assert folders()["data"].verdict == "wrong"
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path))
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path / "file" / "below"))
    assert folders()["data"].verdict == "right"
    assert folders()["cache"].verdict == "note" and "FEDLOOM_CACHE" in folders()["cache"].advice


def test_a_missing_extra_is_a_note_with_the_command(monkeypatch):
    missing = {"onnx": None}
    monkeypatch.setattr(environment, "installed", lambda name: missing.get(name, "1.0"))
    extras = {f.name: f for f in examine() if f.section == "extras"}
    assert extras["export"].verdict == "note" and "onnx" in extras["export"].found
    assert extras["export"].advice == "pip install 'fedloom[export]'"
    assert "dev" not in extras


def test_how_threads_meet_is_said(monkeypatch):
    monkeypatch.setattr(environment, "cores", lambda: 2)
    for library, why, expected in ((object(), "", "compiled code"), (None, "broken", "Python")):
        made = native_meetings.Attempt(library, why)
        monkeypatch.setattr(native_meetings, "attempt", lambda made=made: made)
        (found,) = environment._cores()
        assert expected in found.found and bool(found.advice) == (library is None)
        assert why in found.advice
    monkeypatch.setattr(environment, "cores", lambda: 1)
    assert not list(environment._cores())


def test_ctrl_c_is_no_fault_of_the_device(monkeypatch):
    class Stopped:
        status = "interrupted"

    monkeypatch.setattr(known_answers, "simulate", lambda *given, **options: Stopped())
    with pytest.raises(KeyboardInterrupt):
        known_answers.solve(known_answers.tasks()["egvfl"], "float64")
