"""The project's own files: one version, a whole wheel, workflows that call what exists."""

import ast
import email
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.main import main
from fedloom.version import __version__

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"
CITATION = ROOT / "CITATION.cff"


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(out), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_the_version_is_the_same_wherever_it_is_told(wheel):
    command = [sys.executable, "-m", "fedloom.cli.main", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    metadata = email.message_from_bytes(wheel.read(f"fedloom-{__version__}.dist-info/METADATA"))
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert told == f"fedloom {__version__}\n"
    assert metadata["Version"] == __version__
    assert read(CITATION)["version"] == __version__
    assert newest and newest[1] == __version__


def test_the_wheel_holds_all_that_is_in_the_sources(wheel):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("the sources are not in a git repository")
    there = {name.removeprefix("src/") for name in listed.stdout.splitlines()}
    assert "fedloom/py.typed" in there
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in there if (ROOT / "src" / name).exists()}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_the_makefile_has_with_actions_of_one_major_version(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step for job in read(path)["jobs"].values() for step in job["steps"]]
    assert all(re.fullmatch(r"[\w/-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    commands = [step["run"].split() for step in steps if "run" in step]
    assert commands and all(command[0] == "make" for command in commands)
    assert {target for _, *given in commands for target in given} <= targets
    assert "://" not in path.read_text()  # where packages come from is not ours to say


def test_the_tests_run_on_every_python_that_the_package_names():
    jobs = read(ROOT / ".github" / "workflows" / "checks.yml")["jobs"]
    pyproject = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', pyproject)
    assert jobs["test"]["strategy"]["matrix"]["python"] == named


def test_the_hooks_are_the_checks_of_make_lint():
    (local,) = read(HOOKS)["repos"]
    tools = {hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]}
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    checks = re.findall(r"\$\(BIN\)/([\w ]+\w)", lint)
    assert tools == set(checks)


def test_a_report_of_a_bug_asks_what_the_doctor_found():
    assert {path.stem for path in FORMS} == {"bug", "feature"}
    for form in map(read, FORMS):
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert form["name"] and form["description"]
        assert all(field["id"] and field["attributes"]["label"] for field in fields)
    assert "fedloom doctor --format json" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()


def test_the_citation_names_a_paper_for_every_family_but_the_yardstick():
    papers = read(CITATION)["references"]
    assert all(paper["title"] and paper["authors"] and paper["type"] for paper in papers)
    families = {paper["scope"].split()[1] for paper in papers}
    assert families == {entry.family for entry in CATALOGUE.values()} - {"averaging"}


def test_what_the_main_path_shows_needs_no_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    based_on = {re.match(r"[\w.-]+", entry)[0] for entry in project["dependencies"]}
    optional = {name for extra in project["optional-dependencies"].values() for name in extra}
    used = {
        node.module.split(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name
        for room in ("pictures", "reports", "simulator", "experiments", "measuring", "data")
        for path in (ROOT / "src" / "fedloom" / room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) and (getattr(node, "module", "a") or "")
    }
    assert {"matplotlib", "plotly", "jinja2"} <= used & based_on
    assert not {"matplotlib", "plotly", "jinja2"} & {entry.split(">")[0] for entry in optional}


def test_the_demo_installs_what_it_needs_and_the_tests_the_rest():
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: \$\(VENV\)/ready ", makefile, re.MULTILINE)
    assert re.search(r"^test: \$\(VENV\)/installed ", makefile, re.MULTILINE)
    ready = makefile.partition("$(VENV)/ready:")[2].partition("\n\n")[0]
    assert "-e .\n" in ready and "dev" not in ready and "--quiet" not in makefile.split("wheel:")[0]


def test_python_m_fedloom_is_fedloom():
    command = [sys.executable, "-m", "fedloom", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == f"fedloom {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_verbs_options_and_keys(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("compare", "explain", "set", "scaffold", "a9a"):
        assert word in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
