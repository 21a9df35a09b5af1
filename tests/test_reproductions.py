"""The pages of the reproductions, held against the raw results that they are made from."""

import json
import re

import pytest

from benchmarks import in_parts
from fedloom.errors import SettingsError
from fedloom.experiments import papers, raw_results, settings
from tools import chosen, reproductions, step_tables

NAMES = sorted(papers.available())
SEARCHES = sorted(reproductions.RAW.glob("minimax-*-sweep.json"))
KEPT = sorted(path.stem for path in reproductions.RAW.glob("*.jsonl"))
PAGES = {path.name: path.read_text() for path in reproductions.PAGES.glob("*.md")}


@pytest.fixture(scope="module")
def setups():
    return {name: settings.read(papers.available()[name]) for name in NAMES}


def test_the_tables_of_the_pages_are_those_of_the_raw_results():
    for name, page in PAGES.items():
        assert reproductions.tables_of(page) == page, f"{name}: run python -m tools.reproductions"


def test_every_reproduction_has_its_place_on_one_page():
    placed = [name for page in PAGES.values() for name in re.findall(r"<!-- table (\S+) -->", page)]
    assert sorted(placed) == NAMES


def test_a_changed_number_of_a_page_is_found():
    page = PAGES["composite.md"]
    row = next(line for line in page.splitlines() if line.startswith("| fedmid | 0."))
    changed = page.replace(row, row.replace("0.", "1.", 1))
    assert changed != page and reproductions.tables_of(changed) == page


def test_pictures_were_drawn_from_the_raw_results():
    assert json.loads(reproductions.PICTURES.read_text()) == reproductions.sources()
    for picture in reproductions.sources():
        assert (reproductions.PICTURES.parent / picture).exists()
        assert any(f"images/{picture}" in page for page in PAGES.values()), picture


def test_raw_results_are_of_the_settings_as_they_are(setups):
    for name in KEPT:
        raw, setup = raw_results.read(reproductions.RAW / f"{name}.jsonl"), setups[name]
        assert raw.about["settings"] == raw_results.digest(setup), f"{name}: run it again"
        assert list(raw.runs) == list(setup.algorithms)
        seeds = dict.fromkeys(setup.algorithms, setup.compare.seeds)
        assert {m: len(runs) for m, runs in raw.runs.items()} == raw.about.get("seeds", seeds)
        assert papers.facts(name).part == (raw.about.get("seeds", seeds) != seeds)
        for runs in raw.runs.values():
            assert [run.seed for run in runs] == list(range(len(runs)))


def test_what_the_list_says_is_so(setups):
    rows = papers.listed()
    assert [row["name"] for row in rows] == list(papers.available())
    for row in rows:
        one = papers.facts(row["name"])
        assert one.run == (row["name"] in KEPT)
        assert row["state"] == ("not run" if not one.run else "run in part" if one.part else "run")
        papers.check_names(row["name"], one, setups[row["name"]].algorithms)
    with pytest.raises(SettingsError, match="ffmdr"):
        papers.check_names("minimax-a9a", papers.facts("minimax-a9a"), ["fmdr"])


def test_steps_of_minimax_methods_are_those_that_held_out_rows_chose(setups):
    """Of as many settings for each method; ijcnn1 with either split has those of one search."""
    searched = {path.stem.removesuffix("-sweep"): path for path in SEARCHES}
    searched["minimax-ijcnn1"] = searched["minimax-ijcnn1-fifth"]
    for reproduction, path in searched.items():
        found, methods = json.loads(path.read_text()), setups[reproduction].algorithms
        for name, method in methods.items():
            tried = [trial for trial in found["trials"] if trial["method"] == name]
            assert len(tried) == 16
            last = max(trial["rounds"] for trial in tried)
            best = max((t for t in tried if t["rounds"] == last), key=lambda t: t["auc"])
            for field in found["over"]:
                if best.get(field) is not None:
                    value = method
                    for part in field.removeprefix(f"{name}.").split("."):
                        value = getattr(value, part)
                    assert value == best[field], (reproduction, name, field)


def test_every_search_for_steps_chose_what_the_settings_have(setups):
    for path in reproductions.RAW.glob("*-steps.json"):
        name = path.stem.removesuffix("-steps")
        for method, line in step_tables.best(name).items():
            chosen = setups[name].algorithms[method]
            field = "rho" if "rho" in line else "step"
            assert getattr(chosen, field) == pytest.approx(line[field], rel=1e-3), (name, method)


def test_rates_of_personal_methods_are_those_that_held_out_rows_chose(setups):
    """Of three for each method."""
    for path in reproductions.RAW.glob("personal-*-sweep.json"):
        name = path.stem.removesuffix("-sweep")
        trials = [trial["method"] for trial in json.loads(path.read_text())["trials"]]
        for method, values in chosen.searched(name).items():
            assert trials.count(method) == 3
            assert setups[name].algorithms[method].lr == values["lr"], (name, method)


def test_the_first_seed_of_every_method_is_made_before_the_second(setups):
    made = in_parts.parts("runs", setups["personal-mnist"])
    assert [part.seed for part in made] == [0] * 12 + [1] * 12 + [2] * 12
    assert len({in_parts.place(reproductions.RAW, "runs", "x", part) for part in made}) == 36


def test_seeds_of_a_method_can_share_a_process(tmp_path):
    tasks = in_parts.missing("runs", ["personal-mnist", "personal-mnist-4"], tmp_path)
    assert in_parts.processes(tasks, together=False) == [[task] for task in tasks]
    shared = in_parts.processes(tasks, together=True)
    assert sorted(task for process in shared for task in process) == sorted(tasks)
    assert all([task.part.seed for task in process] == [0, 1, 2] for process in shared)
    methods = [{(task.name, task.part.method) for task in process} for process in shared]
    assert all(len(one) == 1 for one in methods) and len(methods) == 24
