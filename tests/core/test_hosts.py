"""One run over two processes on loopback: the bits of one process, and one end for both."""

import json
import signal

import jax
import numpy as np
import pytest

from core import loopback
from fedloom import interrupts
from fedloom.checksums import digest
from fedloom.cli import together
from fedloom.cli.main import main
from fedloom.errors import HostsError
from fedloom.simulator import hosts

SETTINGS = """
[data]
name = "digits"
[partition]
scheme = "dirichlet"
clients = 4
alpha = 0.5
test_fraction = 0.2
[problem]
kind = "multinomial"
l2 = 1e-3  # which single precision has not
[algorithm]
key = "scaffold"
lr = 0.1
local_steps = 2
cohort = 2
[run]
rounds = 8
eval_every = 4
"""

# What both processes do, one thing after the other; what came of each is told in a file.
PROGRAM = """
import json, os, signal, sys, threading
from pathlib import Path
import numpy as np
import fedloom as fl
from fedloom.cli.main import main
from fedloom.errors import FedloomError
from fedloom.experiments import running, settings
from fedloom.simulator.many_runs import PlannedRun, simulate_many

index, port, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
kept = folder / "kept"
line = ["run", str(folder / "settings.toml"), "--out", str(kept), "--format", "json"]
status = main([*line, "--set", "run.rounds=4", "--hosts", f"127.0.0.1:{port},2,{index}"])
told = {"status": status, "progress": [], "heard": []}

resumed = running.run(settings.read_again(kept, ["run.rounds=8"]), kept, resume=True)
told["resumed"] = [resumed.status, list(resumed.rows)]

rng = np.random.default_rng(0)
clients = fl.data.from_arrays([(rng.normal(size=(9, 3)), rng.integers(0, 2, 9)) for _ in range(4)])
method, problem = fl.algorithms.FedAvg(lr=0.1, local_steps=2), fl.problems.Logistic(l2=1e-3)

class Watch:
    def advance(self, round, rate):
        told["progress"].append(round)
    def evaluated(self, row):
        pass
    def close(self):
        pass

def go(name, **options):
    options = {"rounds": 3, "batch_size": 4, "progress": Watch()} | options
    try:
        result = fl.simulate(method, problem, clients, **options)
        told[name] = [result.status, int(result.state.round), result.rows[-1]]
    except (FedloomError, OSError) as error:
        told[name] = [type(error).__name__, str(error)]

def full_disk(result):
    raise OSError("no space left")

go("another seed", seed=index)
go("devices", devices=1)
go("full disk", checkpoint=full_disk, checkpoint_seconds=0)
go("evaluated", on_evaluation=lambda row: told["heard"].append(row["round"]))
if index == 1:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
go("interrupted", rounds=10**7, eval_every=10**7)
try:
    simulate_many([PlannedRun(method, problem, seed=0)], clients)
except FedloomError as error:
    told["sweep"] = str(error)
(folder / f"told-{index}.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("hosts")
    (made / "settings.toml").write_text(SETTINGS)
    return made


@pytest.fixture(scope="module")
def both(folder):
    """What the two processes told, and what they printed."""
    printed = loopback.both(PROGRAM, folder)
    told = [json.loads((folder / f"told-{i}.json").read_text()) for i in range(2)]
    return told, printed


def test_two_processes_and_a_resumed_run_give_the_bits_of_one(both, folder, capsys):
    assert main(["run", str(folder / "settings.toml"), "--out", str(folder / "one")]) == 0
    for name in ("model.safetensors", "state.safetensors", "info.safetensors"):
        one, two = ((folder / run / name).read_bytes() for run in ("one", "kept"))
        assert digest(one) == digest(two)
    log = (folder / "kept" / "log.txt").read_text()
    assert [log.count(part) for part in ("from round 0", "from round 4", "done at")] == [1, 1, 2]


def test_both_have_the_same_history_and_the_first_alone_speaks(both):
    (first, second), printed = both
    assert first["status"] == second["status"] == 0
    assert first["resumed"] == second["resumed"] and first["resumed"][0] == "done"
    assert json.loads(printed[0][0])["final"]["round"] == 4 and printed[1][0] == ""
    assert first["progress"] and not second["progress"]
    assert first["heard"] == [0, 3] and not second["heard"]
    assert first["evaluated"] == second["evaluated"]


def test_what_ends_one_process_ends_both(both):
    (first, second), printed = both
    for told in (first, second):
        kind, message = told["another seed"]
        assert kind == "HostsError" and "seed" in message and "process 1 has another" in message
        assert told["devices"][0] == "ParameterError" and "must be left out" in told["devices"][1]
        assert "a sweep runs in one process" in told["sweep"]
    assert first["full disk"] == ["OSError", "no space left"]
    assert second["full disk"][0] == "HostsError" and "process 0 of 2" in second["full disk"][1]
    assert first["interrupted"] == second["interrupted"]  # Ctrl-C was pressed in the second
    status, round, row = first["interrupted"]
    assert status == "interrupted" and 0 < round < 10**7 and row["round"] == round
    assert f"interrupted after round {round}" in printed[0][1]
    assert "interrupted after" not in printed[1][1]


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("10.0.0.1:4321,2,1", {}, ("10.0.0.1:4321", 2, 1)),
        ("[::1]:80", {"SLURM_NTASKS": "3", "SLURM_PROCID": "2"}, ("[::1]:80", 3, 2)),
        ("a:1", {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, ("a:1", 2, 0)),
    ],
)
def test_the_place_of_a_process(given, environment, expected):
    assert together.read(given, environment) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a:1", "must be ADDRESS:PORT,COUNT,INDEX"),
        ("settings.toml", "stands behind SETTINGS.toml"),
        ("a,2,0", "must be ADDRESS:PORT,COUNT,INDEX"),
        ("a:1,2,x", "must be ADDRESS:PORT,COUNT,INDEX"),
        ("a:1,2,2", "from 0 to 1"),
        ("a:1,0,0", "number of processes must be a whole number >= 1"),
        ("a:99999,2,0", "must be ADDRESS:PORT,COUNT,INDEX"),
        ("ask", "neither Slurm nor Open MPI 4"),
    ],
)
def test_a_process_that_cannot_know_its_place_says_what_to_give(given, message):
    with pytest.raises(HostsError, match=message):
        together.join(given, {})


@pytest.mark.parametrize("count", [1, 2])
def test_who_has_joined_as_the_only_one_is_not_one_of_several(monkeypatch, count):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(jax, "process_count", lambda: count)
    assert hosts.several() == (count > 1)


def test_numbers_are_agreed_on_until_somebody_is_interrupted(monkeypatch):
    """Here the other process has twice the number of this one, which leads."""
    monkeypatch.setattr(hosts, "several", lambda: True)
    monkeypatch.setattr(hosts, "gathered", lambda numbers: np.stack([numbers, 2 * numbers]))

    def agreed():
        try:
            return hosts.agreed(2.5)
        except KeyboardInterrupt:  # which would end pytest
            return "interrupted"

    with interrupts.listening():
        assert agreed() == (2.5,)
        signal.raise_signal(signal.SIGINT)
        assert agreed() == "interrupted"


@pytest.mark.parametrize("here", [0, 1])
@pytest.mark.parametrize("data", [b"abc", b"", None])
def test_all_have_what_process_0_sends(monkeypatch, here, data):
    """The other end of this process's exchanges is played: process 0 has `data`, 1 has nothing."""
    lengths = np.array([[-1.0 if data is None else len(data)], [-1.0]])

    def gathered(numbers):
        assert here or np.array_equal(numbers, lengths[0])
        return lengths

    def broadcast(own):
        assert len(own) == len(data) and (here == 0 or not own.any())
        return np.frombuffer(data, np.uint8)

    monkeypatch.setattr(hosts, "several", lambda: True)
    monkeypatch.setattr(jax, "process_index", lambda: here)
    monkeypatch.setattr(hosts, "gathered", gathered)
    monkeypatch.setattr(hosts.multihost_utils, "broadcast_one_to_all", broadcast)
    assert hosts.leads() == (here == 0)
    assert hosts.sent(None if here else data) == data
