"""Whatever moment a run is killed at, the resumed run ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.main import main

SETTINGS = """
[data]
name = "iris"
[partition]
scheme = "iid"
clients = 3
[problem]
kind = "multinomial"
[algorithm]
key = "scaffold"
lr = 0.05
cohort = 2
[run]
rounds = 20000
eval_every = 700
batch_size = 4
checkpoint_seconds = 0
"""


KILLS = 3  # each costs a fresh process


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def settings(folder):
    path = folder / "long.toml"
    path.write_text(SETTINGS)
    return path


@pytest.fixture(scope="module")
def whole(folder, settings):
    assert main(["run", str(settings), "--out", str(folder / "whole")]) == 0
    return fl.load(folder / "whole")


def same(result, whole):
    jax.tree.map(np.testing.assert_array_equal, result.state, whole.state)
    rows = zip(result.rows, whole.rows, strict=True)
    assert all(row | {"seconds": 0} == other | {"seconds": 0} for row, other in rows)
    assert result.status == "done"


# Ctrl-C at the first checkpoint: from outside, a busy machine may be late with it.
INTERRUPTED = """
import os, signal, sys
from fedloom.cli.main import main
from fedloom.experiments.folder import RunFolder

keep = RunFolder.keep

def keep_and_interrupt(folder, result):
    RunFolder.keep = keep
    keep(folder, result)
    os.kill(os.getpid(), signal.SIGINT)

RunFolder.keep = keep_and_interrupt
sys.exit(main(sys.argv[1:]))
"""


def start(*arguments, program=("-m", "fedloom.cli.main")):
    command = [sys.executable, *program, *map(str, arguments)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )


def test_killed_at_random_moments_it_ends_with_the_same_bits(folder, settings, whole):
    rng = random.Random(5)
    out = folder / "killed"
    process = start("run", settings, "--out", out)
    killed = 0
    while killed < KILLS:
        while process.poll() is None and not (out / "checkpoint.safetensors").exists():
            time.sleep(0.01)
        # The checkpoint is replaced all the time, so that some kills fall into its writing.
        time.sleep(rng.uniform(0, 0.15))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += 1
        process = start("run", "--resume", out)
    _, error = process.communicate()
    assert process.returncode == 0, error
    assert killed == KILLS
    same(fl.load(out), whole)
    assert not (out / "checkpoint.safetensors").exists()


def test_interrupted_with_ctrl_c_it_goes_on(folder, settings, whole):
    out = folder / "interrupted"
    process = start("run", settings, "--out", out, program=("-c", INTERRUPTED))
    _, error = process.communicate()
    assert process.returncode == 130, error
    stopped = fl.load(out)
    assert stopped.status == "interrupted" and 0 < stopped.final["round"] < 20000
    assert main(["run", "--resume", str(out)]) == 0
    same(fl.load(out), whole)


def test_a_folder_is_not_overwritten_and_not_mixed_up(folder, settings, whole, capsys):
    out = folder / "whole"
    assert main(["run", str(settings), "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["run", "--resume", str(out), "--set", "run.seed=7"]) == 2
    assert "another seed: 0; these settings say 7" in capsys.readouterr().err
    assert main(["run", "--resume", str(folder / "absent")]) == 2
    assert "no such settings file" in capsys.readouterr().err
    same(fl.load(out), whole)


def test_a_finished_run_can_be_prolonged(folder, settings, whole):
    out = folder / "short"
    assert main(["run", str(settings), "--out", str(out), "--set", "run.rounds=750"]) == 0
    assert fl.load(out).history["round"].to_list() == [0, 700, 750]
    assert main(["run", "--resume", str(out), "--set", "run.rounds=20000"]) == 0
    same(fl.load(out), whole)


def test_a_refused_change_leaves_the_folder_as_it_was(tmp_path, capsys):
    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(SETTINGS.replace("20000", "2").replace("700", "1"))
    assert main(["run", str(file), "--out", str(out)]) == 0
    before = {name: (out / name).read_bytes() for name in ("settings.toml", "settings.json")}
    assert main(["run", "--resume", str(out), "--set", "algorithm.lr=0.01"]) == 2
    assert "another algorithm" in capsys.readouterr().err
    assert {name: (out / name).read_bytes() for name in before} == before
    assert main(["run", "--resume", str(out)]) == 0


def test_a_wrong_method_leaves_the_runs_of_those_before_it(tmp_path, capsys):
    file, out = tmp_path / "two.toml", tmp_path / "out"
    text = SETTINGS.replace("[algorithm]", '[[algorithm]]\nkey = "fedavg"\nlr = 0.1\n[[algorithm]]')
    text = text.replace("20000", "2").replace("700", "1").replace("cohort = 2", "cohort = 11")
    file.write_text(text)
    assert main(["compare", str(file), "--out", str(out)]) == 2
    assert "cohort" in capsys.readouterr().err
    assert len(list(out.rglob("result.json"))) == 1
    file.write_text(
        text.replace('key = "fedavg"\nlr = 0.1\n', 'key = "fedavg"\nlr = 0.1\ncohort = 11\n')
    )
    empty = tmp_path / "mine"
    empty.mkdir()
    assert main(["compare", str(file), "--out", str(empty)]) == 2
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('data = "iris"', "data: must be a table; got 'iris'. Write [data]."),
        ("run = 20", "run: must be a table; got 20. Write [run]."),
        ("[[run]]\nrounds = 2", "run: must be a table; got [{'rounds': 2}]. Write [run]."),
        ('partition = "iid"', "partition: must be a table; got 'iid'. Write [partition]."),
    ],
)
def test_a_table_written_as_something_else_is_named(wrong, said, tmp_path, capsys):
    tables = {
        "data": '[data]\nname = "iris"',
        "partition": '[partition]\nscheme = "iid"\nclients = 3',
        "run": "[run]\nrounds = 2",
    }
    name = wrong.strip("[").split()[0].split("]")[0]
    file = tmp_path / "wrong.toml"
    others = [text for key, text in tables.items() if key != name]
    rest = '[problem]\nkind = "multinomial"\n[algorithm]\nkey = "fedavg"\nlr = 0.1\n'
    file.write_text("\n".join([wrong, *others, rest]))
    assert main(["run", str(file)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
