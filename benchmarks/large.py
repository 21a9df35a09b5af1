"""Inputs that are large: many clients, many rows, and images that no memory holds.

    python -m benchmarks.large [--cases ...] [--folder FOLDER] [--out FILE]

Each case is a process of its own, FedAvg by cohorts of 100 clients, or of 10 where rows are images:

    clients     a million clients of 20 rows with 10 features, logistic regression
    memory      10 million rows of 100 features (4 GB) over 1000 clients, in memory
    disk        the same, of which each step reads its batch from a file
    images      100 GB of 32 x 32 x 3 pixels over 1000 clients in a sparse file, which takes no room
                on the disk but is read like any other; softmax regression, tested on 10,000 rows
    cold        3 GB of such images that are really on the disk, and not in the system's cache

Prints one JSON line for each: seconds from the data to the first round, rounds a second after that,
by the clock and by CPU time, and the most memory of the process's own. Pages of files are not its
own: the system takes them back as it needs them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import tell

SIDE, CLASSES, OWNERS = 32, 10, 1000
PIXELS = SIDE * SIDE * 3
CASES = ("clients", "memory", "disk", "images", "cold")


class Watch(threading.Thread):
    """The most memory that this process held of its own, looked at ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0.0
        self.start()

    def run(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.most = max(self.most, float(line.split()[1]) / 1e6)
            time.sleep(0.1)


def many_clients() -> Any:
    from fedloom.data.clients import Clients
    from fedloom.rows import Rows

    rng, count, rows = np.random.default_rng(0), 1_000_000, 20
    x = rng.standard_normal((count * rows, 10), np.float32)
    names = tuple(map(str, range(count)))
    y = rng.integers(0, 2, count * rows, np.int32)
    return Clients(Rows(x, y), np.full(count, rows), names, np.arange(2))


def many_rows(folder: Path) -> Any:
    """Written once, some rows at a time, and opened."""
    import fedloom as fl

    place = folder / "rows"
    if not place.exists():
        rng, rows = np.random.default_rng(0), 10_000_000
        place.mkdir()
        shape = (rows, 100)
        x = np.lib.format.open_memmap(place / "x.npy", "w+", np.float32, shape)
        for start in range(0, rows, 100_000):
            x[start : start + 100_000] = rng.standard_normal((100_000, 100), np.float32)
        np.save(place / "y.npy", rng.integers(0, 2, rows, np.int32))
        np.save(place / "client.npy", np.repeat(np.arange(OWNERS), rows // OWNERS))
    return fl.data.partition(fl.data.load(place), "client")


def images(folder: Path, rows: int, sparse: bool) -> Any:
    """A file of so many images; a sparse one reads as zeros."""
    import fedloom as fl

    rng = np.random.default_rng(0)
    place, tested = folder / ("sparse" if sparse else "real"), folder / "tested"
    if not place.exists():
        place.mkdir()
        shape = (rows, SIDE, SIDE, 3)
        x = np.lib.format.open_memmap(place / "x.npy", "w+", np.uint8, shape)
        for start in () if sparse else range(0, rows, 10_000):
            x[start : start + 10_000] = rng.integers(0, 256, x[start : start + 10_000].shape, "u1")
        x.flush()
        np.save(place / "y.npy", np.arange(rows, dtype=np.int32) % CLASSES)
        np.save(place / "client.npy", np.arange(rows) * OWNERS // rows)
    if not tested.exists():
        tested.mkdir()
        np.save(tested / "x.npy", rng.integers(0, 256, (10_000, SIDE, SIDE, 3), np.uint8))
        np.save(tested / "y.npy", np.arange(10_000) % CLASSES)
        np.save(tested / "client.npy", np.arange(10_000) * OWNERS // 10_000)
    if not sparse:
        with (place / "x.npy").open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return fl.data.partition(fl.data.load(place, test=tested), "client")


def measure(case: str, folder: Path) -> dict[str, Any]:
    """Run in this process."""
    import fedloom as fl
    from fedloom.simulator import places

    watch, clock, began = Watch(), [], time.perf_counter()
    if case in ("disk", "cold"):
        places._OF_A_MACHINE = 0.0  # no room for rows
    if case == "clients":
        held, rounds = many_clients(), 2000
    elif case in ("memory", "disk"):
        held, rounds = many_rows(folder), 100
    else:
        count = 100 * 10**9 if case == "images" else 3 * 10**9
        held, rounds = images(folder, count // PIXELS, case == "images"), 20
    pictures = case in ("images", "cold")
    problem = fl.problems.Multinomial(l2=1e-3) if pictures else fl.problems.Logistic(l2=1e-3)

    def evaluated(row: dict[str, float]) -> None:
        clock.append((time.perf_counter(), time.process_time()))

    fl.simulate(
        fl.algorithms.FedAvg(lr=0.01, local_steps=5, cohort=10 if pictures else 100),
        problem,
        held,
        rounds=2 * rounds,
        batch_size=32 if pictures else 10,
        eval_every=rounds,
        metrics=None if pictures else (),
        progress=False,
        on_evaluation=evaluated,
    )
    (ready, _), (middle, worked), (end, work) = clock
    return {
        "case": case,
        "rows": int(held.sizes.sum()),
        "GB": round(held.train.x.nbytes / 1e9, 1),
        "seconds before": round(ready - began, 1),
        "rounds/s": round(rounds / (end - middle), 1),
        "rounds/CPU s": round(rounds / (work - worked), 1),
        "own memory GB": round(watch.most, 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--folder", type=Path, help="where files are, or are made and stay")
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    parser.add_argument("--here", choices=CASES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps(measure(chosen.here, chosen.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for case in chosen.cases:
            here = [sys.executable, "-m", "benchmarks.large", "--here", case]
            done = subprocess.run(
                [*here, "--folder", str(folder)], check=True, stdout=subprocess.PIPE, text=True
            )
            tell(done.stdout.splitlines()[-1], chosen.out)


if __name__ == "__main__":
    main()
