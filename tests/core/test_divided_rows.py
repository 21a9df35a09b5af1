"""Rows divided over devices and processes: the bits of rows that lie everywhere."""

import json
import subprocess
import sys

import numpy as np
import pytest

import fedloom as fl
from core import loopback
from fedloom import divided_rows
from fedloom.checksums import digest
from fedloom.rows import Rows, store

# Each case twice: with rows on every device, and with room for a part of them.
DEVICES = """
import json
import jax
jax.config.update("jax_num_cpu_devices", 3)
import numpy as np
import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.simulator import places

rng = np.random.default_rng(0)
def clients(*sizes):
    make = lambda n: [(rng.normal(size=(s, 5)), np.arange(s) % 2) for s in sizes[:n]]
    return fl.data.from_arrays(make(9), test=make(9))

def method(key, **changed):
    entry = CATALOGUE[key]
    return entry.cls(**entry.trial | changed)

tiny = fl.models.MLP((2,))
seven = clients(7, 3, 9, 4, 5, 6, 8)
logistic = fl.problems.Logistic(l2=0.1)
personal = fl.problems.Personal(tiny, (tiny, fl.models.MLP((3,))), 2, keep=(-1,), l2=0.1)
cases = {
    "all": (method("scaffold"), logistic, seven),
    "some": (method("scaffold", cohort=4), logistic, seven),
    "again and again": (method("drfa", cohort=3), logistic, seven),
    "fewer than devices": (method("fedavg", cohort=1), logistic, clients(7, 3)),
    "unlike models": (method("quped", cohort=3), personal, seven),
    "one after the other": (method("fedavg", cohort=4), fl.problems.Supervised(tiny), seven),
}
told = {}
for name, (algorithm, problem, held) in cases.items():
    runs = []
    for limit in (None, 45 * held.sizes.sum()):  # training and test rows have 48 bytes
        places.room = lambda on_disk: limit
        lanes = 1 if name == "one after the other" else None
        options = dict(rounds=3, batch_size=4, eval_every=2, lanes=lanes, progress=False)
        runs.append(fl.simulate(algorithm, problem, held, **options))
    leaves = [jax.tree.leaves(run.state) for run in runs]
    rows = [[row | {"seconds": 0} for row in run.rows] for run in runs]
    told[name] = [all(map(np.array_equal, *leaves)), str(rows[0]) == str(rows[1])]
print(json.dumps(told))
"""


def test_devices_that_hold_a_part_of_the_rows_give_the_bits_of_those_that_hold_all():
    done = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(map(tuple, told.values())) == {(True, True)}, told
    assert done.stderr.count("the rows are divided over the 3 devices") == len(told)


# Both processes open the same files, and have room for half of the rows, for none, and for all.
PROCESSES = """
import json, sys
from pathlib import Path
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
import numpy as np
import fedloom as fl
index, port, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
jax.distributed.initialize(f"127.0.0.1:{port}", 2, index)
from fedloom.errors import FedloomError
from fedloom.on_disk import OnDisk
from fedloom.simulator import places

clients = fl.data.partition(fl.data.load(folder / "rows"), "client")
seen, read = set(), OnDisk.read
def watched(self, rows):
    seen.update(np.ravel(rows if self.order is None else self.order[rows]).tolist())
    return read(self, rows)
OnDisk.read = watched
told = {}
for name, part in (("divided", 0.7), ("on the disk", 0.1), ("everywhere", 2.0)):
    for cohort in (None, 2):
        places.memory = lambda: part * 4 * clients.train.x.nbytes
        method = fl.algorithms.Scaffold(lr=0.1, local_steps=2, cohort=cohort)
        seen.clear()
        # Before the rounds, and so before a comparison of some rows between the processes.
        places.alike = lambda federation: {}
        result = fl.simulate(method, fl.problems.Multinomial(), clients, rounds=3, progress=False)
        told[f"{name} {cohort}"] = len(seen)
        if index == 0:
            result.save(folder / f"{name} {cohort}")
(folder / f"told-{index}.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("divided")
    digits = fl.data.load("digits")
    rows = made / "rows"
    rows.mkdir()
    owners = np.sort(np.arange(300) % 5)
    for name, array in (("x", digits.x[:300]), ("y", digits.y[:300]), ("client", owners)):
        np.save(rows / f"{name}.npy", array.astype(np.float32) if name == "x" else array)
    return made


@pytest.fixture(scope="module")
def two(folder):
    printed = loopback.both(PROCESSES, folder)
    return printed, [json.loads((folder / f"told-{i}.json").read_text()) for i in range(2)]


@pytest.mark.parametrize("cohort", [None, 2])
def test_processes_that_hold_a_part_of_the_rows_give_the_bits_of_one_that_holds_all(
    two, folder, cohort
):
    clients = fl.data.partition(fl.data.load(folder / "rows"), "client")
    method = fl.algorithms.Scaffold(lr=0.1, local_steps=2, cohort=cohort)
    alone = fl.simulate(method, fl.problems.Multinomial(), clients, rounds=3, progress=False)
    alone.save(folder / f"alone {cohort}")
    for name in ("divided", "on the disk", "everywhere"):
        kept = fl.load(folder / f"{name} {cohort}")
        states = [folder / f"{run} {cohort}" / "state.safetensors" for run in ("alone", name)]
        assert len({digest(path.read_bytes()) for path in states}) == 1, name
        for one, other in zip(alone.rows, kept.rows, strict=True):
            assert one == other | {"seconds": one["seconds"]}


def test_a_process_reads_the_rows_of_its_own_devices_alone(two):
    printed, told = two
    for cohort in (None, 2):
        assert [one[f"divided {cohort}"] for one in told] == [180, 120]  # of 300, 5 clients
        assert [one[f"everywhere {cohort}"] for one in told] == [300, 300]
    assert printed[0][1].count("the rows are divided over the 2 devices") == 2
    assert printed[0][1].count("the rows stay on the disk") == 2 and "the rows" not in printed[1][1]


@pytest.mark.parametrize("sizes", [[3], [1, 2], [4, 1, 1, 7], [2] * 9])
def test_the_parts_have_all_rows_once(sizes):
    total = sum(sizes)
    rows = Rows(np.arange(2.0 * total).reshape(total, 2).astype(np.float32), np.arange(total))
    whole = store(rows, np.array(sizes))
    places, block = divided_rows._layout(whole, 2)
    each = divided_rows._each(whole, 2)
    assert divided_rows.share(whole, 2) == block * (2 * 4 + 8)
    owners = np.arange(len(sizes)) // each
    for device in range(2):
        own = [
            range(place, place + size)
            for place, size, owner in zip(places, sizes, owners, strict=True)
            if owner == device
        ]
        assert [i for part in own for i in part] == list(range(sum(map(len, own))))
        assert all(part.start + max(sizes) <= block for part in own)
