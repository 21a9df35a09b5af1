"""Do fresh compilations end with the same bits on this device, and what does it cost?

    python -m benchmarks.determinism [--processes 3] [--out FILE]

For every task, processes that share no program cache train with the same seed, with deterministic
programs and without. Prints one JSON line for each: how many different outcomes there were (hashes
of models and of the history's losses), rounds a second, and the seconds to the first round.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import WORKLOADS, arrays

ROUNDS = 20


def tasks() -> dict[str, Any]:
    """Each task by its name: method, problem, clients, batch size."""
    from scipy.sparse import random as sparse

    import fedloom as fl

    w = WORKLOADS["W2"]
    x, y = arrays(w)
    images = fl.data.from_arrays(list(zip(x, y, strict=True)))
    flat = fl.data.from_arrays(list(zip(x.reshape(*x.shape[:2], -1), y, strict=True)))
    local = {"lr": w.lr, "local_steps": w.steps, "cohort": 50}
    small = fl.problems.Supervised(fl.models.CNN((16, 32), (128,)))
    wide = fl.problems.Supervised(fl.models.CNN((64, 128), (512,)))
    rng = np.random.default_rng(0)
    blocks = [sparse(20_000, 300, 0.01, "csr", rng=rng) for _ in range(3)]
    parties = fl.data.from_parties(blocks, rng.normal(size=20_000))
    return {
        "logistic, FedAvg": (fl.algorithms.FedAvg(**local), fl.problems.Multinomial(), flat),
        "CNN, FedAvg": (fl.algorithms.FedAvg(**local), small, images),
        "CNN, SCAFFOLD": (fl.algorithms.Scaffold(**local), small, images),
        "wide CNN, FedAvg": (fl.algorithms.FedAvg(**local), wide, images),
        "sparse columns, EGVFL": (fl.algorithms.EGVFL(), fl.problems.Vertical(l2=0.1), parties),
    }


def train(task: str, deterministic: bool) -> dict[str, Any]:
    """One run in this process: a hash of what came of it, and how long it took."""
    import jax

    import fedloom as fl

    method, problem, clients = tasks()[task]
    settings = {"batch_size": 32, "eval_every": 10, "deterministic": deterministic}
    began = time.perf_counter()
    first = fl.simulate(method, problem, clients, rounds=1, **settings)
    startup = time.perf_counter() - began
    result = fl.simulate(method, problem, clients, rounds=ROUNDS + 1, resume=first, **settings)
    seconds = result.final["seconds"] - first.final["seconds"]
    digest = hashlib.sha256(repr([row.get("loss") for row in result.rows]).encode())
    for leaf in jax.tree.leaves((result.model, result.state)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return {"hash": digest.hexdigest(), "rate": ROUNDS / seconds, "startup": startup}


def alone(task: str, deterministic: bool) -> dict[str, Any]:
    """The same in a fresh process without a program cache."""
    command = [sys.executable, "-m", "benchmarks.determinism", "--task", task]
    command += ["--quick"] * (not deterministic)
    done = subprocess.run(
        command, env=os.environ | {"FEDLOOM_CACHE": "off"}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    parser.add_argument("--task", help="run this one here")
    parser.add_argument("--quick", action="store_true", help="without deterministic programs")
    chosen = parser.parse_args()
    if chosen.task:
        print(json.dumps(train(chosen.task, not chosen.quick)))
        return
    lines = []
    for task in tasks():
        for deterministic in (True, False):
            runs = [alone(task, deterministic) for _ in range(chosen.processes)]
            line = {
                "task": task,
                "deterministic": deterministic,
                "processes": len(runs),
                "outcomes": len({run["hash"] for run in runs}),
                "rounds/s": round(statistics.median(run["rate"] for run in runs), 1),
                "seconds to the first round": round(
                    statistics.median(run["startup"] for run in runs), 1
                ),
            }
            print(json.dumps(line), flush=True)
            lines.append(line)
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
