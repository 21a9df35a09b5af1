"""A place to which nothing can be written is refused in a sentence, by every verb that writes."""

import os
from pathlib import Path

import pytest

from fedloom.cli.main import main
from fedloom.experiments import toml

SETTINGS = {
    "data": {"name": "iris"},
    "partition": {"scheme": "iid", "clients": 3, "test_fraction": 0.2},
    "problem": {"kind": "multinomial"},
    "algorithm": {"key": "fedavg", "lr": 0.1},
    "run": {"rounds": 1},
    "sweep": {"over": {"lr": [0.1]}},
}
FOLDERS = {
    "run": ["run", "it.toml", "--out"],
    "compare": ["compare", "it.toml", "--out"],
    "sweep": ["sweep", "it.toml", "--out"],
    "reproduce": ["reproduce", "composite-a9a", "--out"],
    "pictures": ["report", "kept", "--out", "page.html", "--pictures"],
    "federation": ["new", "federation"],
    "provision": ["provision", "made/project.toml", "--out"],
    "demo": ["demo", "--out"],
    "try": ["try-federation", "--out"],
}
FILES = {
    "report": ["report", "kept", "--out"],
    "raw": ["reproduce", "composite-a9a", "--raw"],
    "predict": ["predict", "kept", "rows.csv", "--out"],
    "coefficients": ["coefficients", "kept", "--out"],
    "export": ["export", "kept", "--to", "safetensors", "--out"],
    "new": ["new", "run", "--data", "iris", "--method", "fedavg"],
    "method": ["new", "method"],
}
NAMES = {"report": "p.html", "raw": "r.jsonl", "export": "m.safetensors", "new": "n.toml"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("it.toml").write_text(toml.document(SETTINGS))
    Path("taken").write_text("a file")
    (tmp_path / "closed").mkdir()
    assert main(["run", "it.toml", "--out", "kept"]) == 0
    assert main(["new", "federation", "made"]) == 0
    may = os.access  # who runs the tests may be root, whom no mode keeps out
    monkeypatch.setattr(
        os, "access", lambda p, mode: not str(p).endswith("closed") and may(p, mode)
    )


def name_of(verb):
    return NAMES.get(verb, "m.py" if verb == "method" else "x.csv")


@pytest.fixture
def refused(here, capsys):
    def refuse(words, place):
        capsys.readouterr()
        at = words.index("run") + 1 if words[:2] == ["new", "run"] else len(words)
        assert main([*words[:at], place, *words[at:]]) == 2
        printed = capsys.readouterr().err.strip()
        assert printed.startswith("error: ") and "\n" not in printed
        assert place.split("/")[0] in printed
        return printed

    return refuse


@pytest.mark.parametrize("verb", FOLDERS)
def test_folders(verb, refused):
    assert "is a file" in refused(FOLDERS[verb], "taken")
    assert "taken is a file" in refused(FOLDERS[verb], "taken/deeper/still")
    assert "you may not write to" in refused(FOLDERS[verb], "closed/new")


@pytest.mark.parametrize("verb", FILES)
def test_files(verb, refused):
    name = name_of(verb)
    assert "taken is a file" in refused(FILES[verb], f"taken/{name}")
    assert "you may not write to" in refused(FILES[verb], f"closed/{name}")
    Path(name).mkdir()
    replaced = verb in ("report", "raw")
    assert ("is a folder" if replaced else "there already") in refused(FILES[verb], name)


def test_what_only_the_system_knows_is_told_as_it_says_it(refused):
    assert "file name too long" in refused(FOLDERS["run"], "n" * 300)
