"""What the README and the examples say runs as it stands."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from fedloom.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL).group(1)


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readme.py").write_text(block("python"))
    runpy.run_path("readme.py")
    assert "accuracy" in capsys.readouterr().out


def test_the_toml_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readme.toml").write_text(block("toml"))
    assert tomllib.loads(block("toml"))
    assert main(["run", "readme.toml"]) == 0
    assert list((tmp_path / "runs").iterdir())


# The tutorial is a notebook and has a test of its own.
SCRIPTS = sorted({p.name for p in (ROOT / "examples").glob("*.py")} - {"tutorial.py"})


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


def test_the_pictures_of_the_readme_are_there():
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).stat().st_size > 10_000
