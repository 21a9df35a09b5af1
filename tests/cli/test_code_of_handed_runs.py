"""A run's folder from somebody else executes nothing that its user has not run or trusted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import submitit

import fedloom as fl
from cli.own_code import announced
from fedloom.checksums import digest, read_json, write_json
from fedloom.cli import slurm
from fedloom.cli.main import main
from fedloom.errors import FedloomError
from fedloom.experiments import known_code

MINE = """
import pathlib
from subprocess import call
import fedloom as fl
from fedloom.parameters import parametrised

pathlib.Path({mark!r}).write_text(__file__)

@parametrised
class Mine(fl.problems.Logistic):
    pass

brier = fl.Metric(lambda model, rows: (rows.y - 0.5) ** 2, larger_is_better=False)
"""
SETTINGS = """
data = { sites = "{home}/sites/*.csv", label = "y" }
problem = { kind = "mine.py:Mine" }
algorithm = { key = "fedavg", lr = 0.1 }
run = { rounds = 2 }
"""
NEW = "a,b\n1,2\n3,4\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Somebody's folder with settings and code, where one works; the user's cache is another."""
    folder = tmp_path / "home"
    (folder / "sites").mkdir(parents=True)
    rows = "".join(f"{i % 7},{i % 5},{'no' if i % 2 else 'yes'}\n" for i in range(30))
    for name in ("one", "two"):
        (folder / "sites" / f"{name}.csv").write_text("a,b,y\n" + rows)
    (folder / "mine.py").write_text(MINE.format(mark=str(tmp_path / "executed")))
    (folder / "study.toml").write_text(SETTINGS.replace("{home}", str(folder)))
    (folder / "new.csv").write_text(NEW)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(known_code, "_seen", set())
    yield folder
    _forget_modules_below(tmp_path)


def _forget_modules_below(folder):
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def executed(tmp_path):
    """Whether code of somebody's own was executed since this was last asked."""

    def asked():
        mark = tmp_path / "executed"
        there = mark.exists()
        mark.unlink(missing_ok=True)
        _forget_modules_below(tmp_path)
        return there

    return asked


def another_user(monkeypatch, tmp_path):
    """From here on, nothing was run by this user."""
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path / "cache-of-another"))
    monkeypatch.setattr(known_code, "_seen", set())


def ran(home, executed, *options):
    assert main(["run", "study.toml", "--out", "model", *options]) == 0
    assert executed()
    return home / "model"


def forged(model, name, kind="problem", **others):
    """What the result and its settings name, with the digest of what lies there."""
    where = name.rpartition(":")[0]
    for file in ("result.json", "settings.json"):
        facts = read_json(model / file)
        tables = facts.get("settings", facts)
        if kind == "problem":
            tables["problem"]["kind"] = name
        else:
            tables["data"] = {"name": name, **others}
        if Path(where).is_file():
            tables["code"] = {where: digest(Path(where).read_bytes())}
        write_json(model / file, facts)


def tried(model, capsys):
    """What all verbs that take a run's folder say of code."""
    verbs = (
        ["predict", str(model), "new.csv"],
        ["predict", str(model), "new.csv", "--site", "one"],
        ["coefficients", str(model), "--local"],
        ["export", str(model), "--to", "safetensors"],
        ["run", "--resume", str(model), "--set", "run.rounds=4"],
    )
    said = []
    for verb in verbs:
        capsys.readouterr()
        assert main(verb) == 2
        said.append(capsys.readouterr().err)
        assert "it is not executed" in said[-1], verb
    return said


def test_who_ran_a_method_of_ones_own_predicts_and_resumes_from_anywhere(
    home, executed, tmp_path, monkeypatch
):
    model = ran(home, executed)
    monkeypatch.setattr(known_code, "_seen", set())  # another day
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["predict", str(model), str(home / "new.csv")]) == 0 and executed()
    assert fl.predict(fl.load(model), home / "new.csv").height == 2 and executed()
    site = ["--site", "one", "--out", str(home / "of-one.csv")]
    assert main(["predict", str(model), str(home / "new.csv"), *site]) == 0 and executed()
    resumed = ["run", "--resume", str(model), "--set", "run.rounds=3"]
    mine = f'run.metrics=["{home}/mine.py:brier"]'  # named by the user, not by the folder
    assert main([*resumed, "--set", mine]) == 0 and executed()
    monkeypatch.setattr(known_code, "_seen", set())
    assert main(["predict", str(model), str(home / "new.csv")]) == 0 and executed()


def test_a_folder_of_somebody_else_executes_nothing(home, executed, tmp_path, monkeypatch, capsys):
    model = ran(home, executed)
    another_user(monkeypatch, tmp_path)
    said = tried(model, capsys)
    assert all(f"{home}/mine.py:Mine" in text and "--trust mine.py" in text for text in said)
    assert all("no note on this machine that you ran these settings" in text for text in said)
    assert all("In Python, pass problem=... to predict" in text for text in said)
    with pytest.raises(FedloomError, match="it is not executed"):
        fl.predict(fl.load(model), "new.csv")
    assert main(["report", str(model)]) == 0
    assert not executed()


@pytest.mark.parametrize(
    "name",
    [
        "/proc/self/cwd/evil.py:Mine",
        "/proc/self/cwd/model/evil.py:Mine",
        "{home}/evil.py:Mine",
        "{home}/model/evil.py:Mine",
        "{home}/model/../evil.py:Mine",
        "{home}/link/evil.py:Mine",
        "evil.py:Mine",
        "model.evil:Mine",
        "evil:Mine",
    ],
)
def test_nor_does_a_file_that_comes_with_it(name, home, executed, tmp_path, monkeypatch, capsys):
    """Not even for a user whose own run it was before it was forged."""
    model = ran(home, executed)
    for place in (home, model):
        shutil.copy(home / "mine.py", place / "evil.py")
    (home / "link").symlink_to(model)
    monkeypatch.syspath_prepend("")  # as `python -m fedloom` and notebooks have it
    forged(model, name.format(home=home))
    tried(model, capsys)
    with pytest.raises(FedloomError, match="it is not executed"):
        fl.predict(fl.load("model"), "new.csv")
    assert not executed()


@pytest.mark.parametrize("name", ["subprocess:call", "{home}/mine.py:call"])
def test_no_function_is_called_with_arguments_that_a_folder_has(
    name, home, executed, tmp_path, capsys
):
    model = ran(home, executed)
    name = name.format(home=home)
    forged(model, name, "data", args=["touch", str(tmp_path / "called")])
    module = [] if "mine" in name else ["--trust", "subprocess"]
    for verb in (["predict", "model", "new.csv", "--site", "one"], ["run", "--resume", "model"]):
        assert main([*verb, "--trust", "mine.py", *module]) == 2
        said = capsys.readouterr().err
        assert f"names code, {name}, and it is not executed" in said and "problem=" not in said
        assert main(verb) == 2
        capsys.readouterr()
    assert not (tmp_path / "called").exists()


def test_a_package_that_lies_where_one_works_announces_nothing(home, executed, monkeypatch, capsys):
    model = ran(home, executed)
    monkeypatch.syspath_prepend("")
    announced(home, "theirs", (home / "mine.py").read_text(), problems="their = theirs:Mine")
    forged(model, "their")
    assert all("Install the package" in text for text in tried(model, capsys)) and not executed()
    monkeypatch.setattr(known_code.site, "getsitepackages", lambda: [str(home)])
    assert main(["predict", "model", "new.csv"]) == 0 and executed()


def test_a_file_that_the_user_trusts_stands_in_for_the_same_file_elsewhere(
    home, executed, tmp_path, monkeypatch, capsys
):
    model = ran(home, executed)
    another_user(monkeypatch, tmp_path)
    (home / "mine.py").rename(tmp_path / "theirs.py")
    predict = ["predict", "model", "new.csv", "--trust"]
    assert main([*predict, str(tmp_path / "theirs.py")]) == 0 and executed()
    assert main([*predict, str(tmp_path / "nothing.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
    (tmp_path / "other.py").write_text("raise SystemExit('executed')")
    assert main([*predict, str(tmp_path / "other.py")]) == 2
    assert "was run with no file of this content" in capsys.readouterr().err
    assert main(["coefficients", "model", "--site", "one"]) == 2 and not executed()
    resumed = ["run", "--resume", str(model), "--set", "run.rounds=3"]
    assert main([*resumed, "--trust", str(tmp_path / "theirs.py")]) == 0 and executed()
    assert main(["predict", "model", "new.csv"]) == 0 and executed()  # the user has run it now
    assert main(["run", "study.toml", "--trust", "theirs.py"]) == 2


def test_a_changed_file_is_not_executed(home, executed, capsys):
    ran(home, executed)
    (home / "mine.py").write_text("raise SystemExit('executed')")
    for trusted in ([], ["--trust", "mine.py"]):
        assert main(["predict", "model", "new.csv", *trusted]) == 2
        assert "executed" not in capsys.readouterr().err.replace("it is not executed", "")


def test_without_a_cache_one_process_still_knows_what_it_ran(home, executed, monkeypatch, capsys):
    monkeypatch.setenv("FEDLOOM_CACHE", "off")
    ran(home, executed)
    assert main(["predict", "model", "new.csv"]) == 0 and executed()
    monkeypatch.setattr(known_code, "_seen", set())
    assert main(["predict", "model", "new.csv"]) == 2 and not executed()
    assert main(["predict", "model", "new.csv", "--trust", "mine.py"]) == 0 and executed()


def test_a_cache_that_a_folder_brings_along_is_not_believed(home, executed, monkeypatch):
    monkeypatch.setenv("FEDLOOM_CACHE", "cache")
    ran(home, executed)
    monkeypatch.setattr(known_code, "_seen", set())
    assert main(["predict", "model", "new.csv"]) == 2 and not executed()


def test_comparisons_and_sweeps_are_resumed_by_who_began_them(
    home, executed, tmp_path, monkeypatch
):
    with (home / "study.toml").open("a") as file:
        file.write("[sweep.over]\nlr = [0.05, 0.1]\n")
    for verb in ("compare", "sweep"):
        assert main([verb, "study.toml", "--out", verb]) == 0 and executed()
        monkeypatch.setattr(known_code, "_seen", set())
        assert main([verb, "--resume", verb]) == 0 and executed()
    for verb in ("compare", "sweep"):
        another_user(monkeypatch, tmp_path / verb)
        assert main([verb, "--resume", verb]) == 2 and not executed()
        assert main([verb, "--resume", verb, "--trust", "mine.py"]) == 0 and executed()


def test_a_second_process_in_a_handed_folder_executes_nothing(home, executed, tmp_path):
    """As `python -m fedloom`, with the folder itself on the path of modules."""
    model = ran(home, executed)
    shutil.copy(home / "mine.py", model / "evil.py")
    forged(model, "model.evil:Mine")
    source = str(Path(fl.__file__).parents[1])
    told = subprocess.run(
        [sys.executable, "-m", "fedloom", "predict", "model", "new.csv"],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 2 and "it is not executed" in told.stderr and not executed()


def test_jobs_of_slurm_have_a_folder_that_nobody_could_fill_before(tmp_path, monkeypatch):
    """Submitit unpickles `NUMBER_0_result.pkl` in the folder of its jobs, whoever wrote it."""
    folders = []

    class Auto:
        def __init__(self, folder, cluster):
            folders.append(folder)

        def update_parameters(self, **given):
            pass

    monkeypatch.setattr(submitit, "AutoExecutor", Auto)
    monkeypatch.setattr(slurm.shutil, "which", lambda name: "/bin/true")
    for _ in range(2):
        slurm.Slurm(tmp_path / "slurm", "time=5")
    assert len(set(folders)) == 2 and {folder.parent for folder in folders} == {tmp_path / "slurm"}
