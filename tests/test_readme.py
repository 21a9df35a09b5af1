"""What the README and the examples say runs as it stands."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import numpy as np
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


NEEDS = {
    "lora_transformers.py": ("torch", "transformers", "peft"),
    "own_torch_network.py": ("torch",),
}


@pytest.mark.filterwarnings("default:column 'job'. 1 of 3 rows hold a word")  # which one shows
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_examples_run(name, tmp_path, monkeypatch):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


def test_the_table_of_hospitals_is_that_of_the_raw_lines():
    losses = {}
    for line in (ROOT / "docs/verification/hospitals.jsonl").read_text().splitlines():
        run = json.loads(line)
        losses.setdefault(run["method"], []).append(run["loss"])
    means = [np.mean(losses[name], axis=0) for name in ("each alone", "FedAvg", "QuPeD")]
    found = re.findall(r"^\| ([A-Z][\w ]+) \| \d+ \| (.+) \|$", README, re.MULTILINE)
    assert [name for name, _ in found] == [
        *("Cleveland", "Budapest", "Zurich and Basel", "Long Beach"),
    ]
    for place, (_, cells) in enumerate(found):
        assert cells.replace("*", "").split(" | ") == [f"{mean[place]:.3f}" for mean in means]
    told = " ".join(README.split())
    fedavg, quped = (
        (np.array(losses[name]) < losses["each alone"]).sum(0).tolist()
        for name in ("FedAvg", "QuPeD")
    )
    assert f"gains in {fedavg[3]} of 20 by FedAvg and in {quped[3]} of 20 by QuPeD" in told
    assert f"Cleveland gains in {quped[0]} and Budapest in {quped[1]}; Zurich and Basel" in told
    assert f"gain in only {quped[2]}, and their mean comes from four large gains" in told
    assert (means[2] < means[0]).all()  # "every hospital does better, on average, than alone"
    assert (means[1] < means[0]).tolist() == [False, False, False, True]


def test_the_pictures_of_the_readme_are_there():
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).stat().st_size > 10_000
