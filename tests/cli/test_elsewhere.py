"""Runs that others do: plain orders, the same bits, and folders that say what is left to do."""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import socket
import subprocess

import jax
import numpy as np
import polars as pl
import pytest
import submitit
from scipy.sparse import csr_array
from submitit.core.utils import DelayedSubmission

import fedloom as fl
from fedloom.cli import slurm
from fedloom.cli.main import main
from fedloom.data.normalising import Normalisation
from fedloom.data.parties import Parties
from fedloom.errors import ParameterError, WorkersError
from fedloom.exchange import wire
from fedloom.experiments import kept_rows, settings
from fedloom.experiments.claims import claimed
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.orders import obey
from fedloom.experiments.running import run_folder
from fedloom.preparation.encoding import Column
from fedloom.preparation.of_party import PartyPreparation
from fedloom.reports import reading

METHODS = {"a": fl.algorithms.FedAvg(lr=0.1), "b": fl.algorithms.FedAvg(lr=0.2)}
PROBLEM = fl.problems.Multinomial(l2=1e-3)
OPTIONS = {"rounds": 6, "eval_every": 2, "batch_size": 8, "checkpoint_seconds": 0.0}
SETTINGS = """
data = { name = "iris" }
partition = { scheme = "iid", clients = 3, test_fraction = 0.2 }
problem = { kind = "multinomial", l2 = 1e-3 }
algorithm = { key = "fedavg", lr = 0.1 }
run = { rounds = 6, eval_every = 2, batch_size = 8 }
compare = { seeds = 2, metric = "loss" }
"""


class Future:
    """Does its work when it is asked for the result."""

    def __init__(self, call):
        self.call, self.cancelled = call, False

    def result(self):
        return self.call()

    def cancel(self):
        self.cancelled = True


class Recorder:
    """An executor that says what it was given."""

    def __init__(self, before=lambda folder, wait: None):
        self.submitted, self.futures, self.before = [], [], before

    def submit(self, function, *arguments):
        assert function is obey
        order, folder, wait = json.loads(json.dumps(arguments))  # plain values survive it
        self.submitted.append("/".join([*folder.split("/")[-2:], *["wait"] * wait]))

        def call():
            self.before(folder, wait)
            return function(order, folder, wait)

        self.futures.append(Future(call))
        return self.futures[-1]


@pytest.fixture(scope="module")
def clients():
    return fl.data.partition(fl.data.load("iris"), "iid", clients=3, test_fraction=0.2)


@pytest.fixture(scope="module")
def plain(clients):
    return fl.compare(METHODS, PROBLEM, clients, seeds=(0, 1), **OPTIONS)


def again(clients, out, executor):
    return fl.compare(
        METHODS, PROBLEM, clients, seeds=(0, 1), out=out, executor=executor, **OPTIONS
    )


def same(comparison, plain):
    for name, runs in plain.results.items():
        for one, other in zip(comparison.results[name], runs, strict=True):
            jax.tree.map(np.testing.assert_array_equal, wired(one), wired(other))
            rows = zip(one.rows, other.rows, strict=True)
            assert all(row | {"seconds": 0} == known | {"seconds": 0} for row, known in rows)


def wired(result):
    return wire.named(result.state)


def test_an_executor_gets_plain_orders_and_gives_the_same_bits(clients, plain, tmp_path):
    recorder = Recorder()
    same(again(clients, tmp_path, recorder), plain)
    assert recorder.submitted == ["a/seed-0", "a/seed-1", "b/seed-0", "b/seed-1"]
    assert not (tmp_path / ".rows").exists() and not list(tmp_path.rglob(".claim*"))
    skipping = Recorder()
    same(again(clients, tmp_path, skipping), plain)
    assert skipping.submitted == []
    changed = METHODS | {"b": fl.algorithms.FedAvg(lr=0.3)}
    with pytest.raises(fl.FedloomError, match="another algorithm"):
        fl.compare(changed, PROBLEM, clients, out=tmp_path, executor=Recorder(), **OPTIONS)


def test_a_method_named_as_the_folder_of_rows_keeps_its_runs(clients, tmp_path):
    asked = {"out": tmp_path, "executor": Recorder(), **OPTIONS}
    fl.compare({".rows": METHODS["a"]}, PROBLEM, clients, **asked)
    assert [path.name for path in tmp_path.iterdir()] == ["-.rows"]
    assert fl.load(tmp_path / "-.rows" / "seed-0").status == "done"
    assert list(reading.read([tmp_path])[0].methods) == ["-.rows"]


def test_threads_and_a_division_for_each_seed(tmp_path):
    def divided(seed):
        return fl.data.partition(
            fl.data.load("iris"), "iid", clients=3, test_fraction=0.2, seed=seed
        )

    asked = {"seeds": (0, 1), **OPTIONS}
    one = {"a": METHODS["a"]}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = fl.compare(one, PROBLEM, divided, out=tmp_path, executor=pool, **asked)
    same(found, fl.compare(one, PROBLEM, divided, **asked))
    assert found.redivided and found.results["a"][0].about["redivided"]


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(clients, plain, tmp_path, monkeypatch):
    def kill_b1(folder, wait):
        def keep_and_die(self, result, keep=RunFolder.keep):
            monkeypatch.undo()
            keep(self, result)
            raise OSError("killed")

        if folder.endswith("b/seed-1"):
            monkeypatch.setattr(RunFolder, "keep", keep_and_die)

    with pytest.raises(WorkersError, match=r"1 of 4 runs did not end. b, seed 1: OSError: killed"):
        again(clients, tmp_path, Recorder(kill_b1))
    place = tmp_path / "b" / "seed-1"
    assert (place / "checkpoint.safetensors").exists() and not (place / "result.json").exists()
    dead = subprocess.Popen(["true"])
    dead.wait()
    (place / ".claim").write_text(f"{socket.gethostname()} {dead.pid} 00")
    recorder = Recorder()
    same(again(clients, tmp_path, recorder), plain)
    assert recorder.submitted == ["b/seed-1"]
    assert "from round 0" not in (place / "log.txt").read_text().splitlines()[-2]


def test_a_failure_elsewhere_is_told_in_short_and_removes_nothing(clients, file, tmp_path):
    trace = "Job failed:\nTraceback ...\n  raise\nfedloom.errors.DataError: no such file.\nSee logs"

    def fail(folder, wait):
        raise RuntimeError(trace)

    with pytest.raises(WorkersError, match=r"4 of 4 .* a, seed 0: DataError: no such file; .* and"):
        again(clients, tmp_path / "a", Recorder(fail))
    out = tmp_path / "o"
    with pytest.raises(WorkersError), run_folder(settings.read(file), out, resume=False):
        raise WorkersError("1 of 100 runs did not end")
    assert (out / "settings.json").exists()


def test_a_run_of_another_worker_is_left_to_it_and_waited_for(clients, plain, tmp_path):
    held = claimed(tmp_path / "a" / "seed-1")
    assert held.__enter__()

    def let_go(folder, wait):
        if wait:
            held.__exit__(None, None, None)

    recorder = Recorder(let_go)
    same(again(clients, tmp_path, recorder), plain)
    assert recorder.submitted[-1] == "a/seed-1/wait" and len(recorder.submitted) == 5


def test_ctrl_c_cancels_what_has_not_begun(clients, plain, tmp_path):
    def interrupt(folder, wait):
        if folder.endswith("b/seed-0"):
            raise KeyboardInterrupt

    recorder = Recorder(interrupt)
    stopped = again(clients, tmp_path, recorder)
    assert stopped.interrupted and [len(runs) for runs in stopped.results.values()] == [2, 0]
    assert [future.cancelled for future in recorder.futures] == [False, False, True, True]
    recorder = Recorder()
    same(again(clients, tmp_path, recorder), plain)
    assert recorder.submitted == ["b/seed-0", "b/seed-1"]


def test_what_cannot_travel_is_named(clients, tmp_path):
    class Own(fl.algorithms.FedAvg):
        pass

    def refused(words, methods=METHODS, out=tmp_path, executor=None, **more):
        with pytest.raises(ParameterError, match=words):
            executor = executor or Recorder()
            fl.compare(methods, PROBLEM, clients, out=out, executor=executor, **OPTIONS, **more)

    refused(r"executor must have submit.*get_context\(.spawn.\)", executor=object())
    refused("needs a folder", out=None)
    refused("the option optimum is an object of this process", optimum=np.zeros(3))
    metric = fl.Metric(lambda model, rows: rows.y, larger_is_better=True)
    refused("the metric 'mine' is a function", metrics={"mine": metric})
    refused("method 'own' cannot be written as settings: Own has no key", {"own": Own(lr=0.1)})
    refused("watch and tracked follow runs in this process", watch=lambda name, seed: None)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_by_an_executor_finds_the_same(clients, tmp_path):
    asked = {"over": {"lr": [0.01, 0.1, 1e9]}, "halving": True, "rounds": 8, "batch_size": 8}
    here = fl.sweep({"a": METHODS["a"]}, PROBLEM, clients, **asked)
    recorder = Recorder()
    there = fl.sweep(
        {"a": METHODS["a"]}, PROBLEM, clients, out=tmp_path, executor=recorder, **asked
    )
    assert repr(there.rows) == repr(here.rows) and there.best == here.best  # nan is not nan
    assert len(recorder.submitted) == 3 + 2 + 1
    assert [path.name for path in tmp_path.iterdir()] == ["trials.json"]
    recorder = Recorder()
    fl.sweep({"a": METHODS["a"]}, PROBLEM, clients, out=tmp_path, executor=recorder, **asked)
    assert recorder.submitted == []


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SETTINGS)
    return str(path)


def test_processes_give_the_bits_of_one_and_the_same_command_goes_on(
    file, clients, plain, tmp_path, capsys
):
    command = ["compare", file, "--out", str(tmp_path / "o"), "--format", "json", "--workers", "2"]
    assert main(command) == 0
    shown = capsys.readouterr()
    (row,) = json.loads(shown.out)
    assert row["loss"] == plain.table(metrics=["loss"])[0]["loss"]
    assert "2 of 2: fedavg, seed" in shown.err
    for seed, known in enumerate(plain.results["a"]):
        result = fl.load(tmp_path / "o" / "fedavg" / f"seed-{seed}")
        jax.tree.map(np.testing.assert_array_equal, wired(result), wired(known))
    before = (tmp_path / "o" / "fedavg" / "seed-0" / "log.txt").read_text()
    assert main(command) == 0  # nothing is left to do, and no process begins
    assert (tmp_path / "o" / "fedavg" / "seed-0" / "log.txt").read_text() == before
    assert main([*command, "--set", "run.rounds=7"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "holds runs whose settings differ in run.rounds. Choose" in said
    table = ["--metrics", "loss,accuracy", "--interval", "0.9", "--set", "compare.title='both'"]
    assert main(["compare", "--resume", str(tmp_path / "o"), *table]) == 0  # the table only
    assert main(command) == 0
    assert main([*command, *table]) == 0
    assert (tmp_path / "o" / "fedavg" / "seed-0" / "log.txt").read_text() == before
    others = ["--set", "compare.seeds=3", "--set", "algorithm.lr=0.2"]
    assert main([*command, *others]) == 2
    assert "settings differ in algorithm, compare.seeds." in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["compare", file, "--out", str(tmp_path / "p"), "--workers", "0"]) == 2
    assert "--workers must be a whole number >= 1; got 0" in capsys.readouterr().err


def test_slurm_gets_what_the_command_line_says(file, tmp_path, capsys, monkeypatch):
    asked = slurm.parameters("partition=gpu,gpus=1,time=90,cpus-per-task=4,mem_gb=8,qos=long")
    assert asked == {
        "timeout_min": 90,
        "slurm_partition": "gpu",
        "cpus_per_task": 4,
        "mem_gb": 8.0,
        "slurm_qos": "long",
        "slurm_additional_parameters": {"gpus": "1"},
    }
    later = slurm.Again().checkpoint(pow, 2, 5)
    assert later.function(*later.args) == 32  # a job out of time does the same again
    command = ["compare", file, "--out", str(tmp_path / "o"), "--slurm"]
    for words, said in {"gpus": "must be KEY=VALUE", "gpus=1": "needs time=MINUTES"}.items():
        assert main([*command, words]) == 2 and said in capsys.readouterr().err
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    assert main([*command, "time=5"]) == 2 and "there is no sbatch" in capsys.readouterr().err
    monkeypatch.setattr(slurm.shutil, "which", lambda name: "/bin/true")
    told = {"arrays": 0}

    class Auto:
        """Submitit without the queue: a job reads its call from a file."""

        def __init__(self, folder, cluster):
            assert cluster == "slurm" and folder.parent == tmp_path / "o" / "slurm"

        def update_parameters(self, **given):
            told.update(given)

        @contextlib.contextmanager
        def batch(self):
            yield
            told["arrays"] += 1

        def submit(self, function, *arguments):
            DelayedSubmission(function, *arguments).dump(tmp_path / arguments[2][-1:])
            return Future(lambda: DelayedSubmission.load(tmp_path / arguments[2][-1:]).result())

    monkeypatch.setattr(submitit, "AutoExecutor", Auto)
    assert main([*command, "partition=cpu,time=5", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["seeds"] == 2 and told == {
        "arrays": 1,
        "timeout_min": 5,
        "slurm_partition": "cpu",
    }


def test_a_missing_submitit_is_said(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["compare", file, "--out", str(tmp_path / "o"), "--slurm", "time=5"]) == 2
    assert "Install fedloom[cluster]" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_clients_are_the_same_when_they_were_in_a_file(clients, tmp_path):
    x, y = np.eye(4), np.array(["no", "yes", "no", "yes"])
    named = fl.data.from_arrays([(x, y), (x[:2], y[:2])], test=[(x, y), (x[:0], y[:0])])
    scaled = fl.data.partition(fl.data.load("iris"), "iid", clients=2, normalise=True)
    assert isinstance(scaled.normalisation, Normalisation)
    parties = fl.data.from_parties(
        {"a": csr_array(x), "b": x[:, :2]}, y, test=({"a": x, "b": x[:, :2]}, y)
    )
    prepared = {"a": PartyPreparation("who", [Column("age", 0, 50.0, 9.0)], encoding="latin-1")}
    joined = dataclasses.replace(parties, preparations=prepared)
    for held in (clients, named, scaled, parties, joined):
        kept_rows.write(tmp_path / "rows", held)
        read = kept_rows.read(tmp_path / "rows")
        assert repr(read) == repr(held) and read.names == held.names
        assert not isinstance(held, Parties) or read.preparations == held.preparations
        assert os.stat(tmp_path / "rows").st_mode & 0o077 == 0
        for one, other in zip(arrays(read), arrays(held), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def arrays(held):
    if isinstance(held, Parties):
        blocks = [*held.features, *held.test_features]
        dense = [b.toarray() if hasattr(b, "toarray") else b for b in blocks]
        return [*dense, held.y, held.test_y, held.labels]
    tested = [] if held.test is None else [*held.test]
    return [*held.train, *tested, held.sizes, held.test_sizes, held.labels]


def test_what_a_table_leaves_out_is_left_out_by_workers_too(tmp_path):
    rows = {"x": [0.5, 1.5] * 20, "id": list(range(1000, 1040)), "y": [0, 1] * 20}
    table = fl.data.load(pl.DataFrame(rows), label="y")
    assert list(table.left_out) == ["id"]

    def divided(seed):
        return fl.data.partition(table, "iid", clients=2, test_fraction=0.5, seed=seed)

    options = {"seeds": (0, 1), "rounds": 1, "out": tmp_path}
    for _ in range(2):  # done by workers, and found done
        made = fl.compare(METHODS, fl.problems.Logistic(), divided, executor=Recorder(), **options)
        assert [len(runs) for runs in made.results.values()] == [2, 2]
