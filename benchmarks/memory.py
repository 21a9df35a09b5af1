"""What fits a card: many clients of a large network, and rows that are larger than its memory.

    python -m benchmarks.memory [--gigabytes 24] [--clients 100] [--rounds 2] [--out FILE]

Each line is a process of its own whose card is cut to so many gigabytes: ResNet-18 with group norms
at every client, 20 steps of batch 32 a round, as it is, with products alone kept for the gradient,
in bfloat16, and with both; then a small network over images of more than half the memory, which
stay on the host, beside the same with all of the card. Prints JSON: client-rounds a second, and how
many clients were computed side by side. Needs a GPU, and torchvision for its ResNet.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STEPS, BATCH, LR = 20, 32, 0.01
WAYS: dict[str, dict[str, Any]] = {
    "resnet18": {},
    "resnet18 rematerialised": {"rematerialise": True},
    "resnet18 bfloat16": {"compute": "bfloat16"},
    "resnet18 both": {"rematerialise": True, "compute": "bfloat16"},
    "rows on the host": {},
    "rows on the card": {},
}
IMAGES = 700_000  # of 32 x 32 x 3, in single precision 8.6 GB


def resnets(clients: int, options: dict[str, Any]) -> tuple[Any, Any]:
    """The problem and the clients of ResNet-18."""
    import torch

    import fedloom as fl
    from benchmarks.networks import NETWORKS, labels

    module, x = NETWORKS["resnet18"]()
    graph = fl.models.from_torch(module, torch.from_numpy(x[:2]))
    held = fl.data.from_arrays([(x, labels())] * clients)
    return fl.problems.Supervised(graph, **options), held


def images(clients: int) -> tuple[Any, Any]:
    """A small network, and clients with many images."""
    import numpy as np

    import fedloom as fl

    draws = np.random.default_rng(0)
    x = draws.random((IMAGES, 32, 32, 3), np.float32)
    parts = np.array_split(x, clients), np.array_split(draws.integers(0, 10, IMAGES), clients)
    network = fl.models.CNN(channels=(32, 64), hidden=(512,))
    return fl.problems.Supervised(network), fl.data.from_arrays(list(zip(*parts, strict=True)))


def measure(way: str, clients: int, rounds: int) -> dict[str, Any]:
    """Run in this process."""
    import fedloom as fl

    rows = way.startswith("rows")
    problem, held = images(clients) if rows else resnets(clients, WAYS[way])
    method = fl.algorithms.FedAvg(lr=LR, local_steps=STEPS)
    settings = {"batch_size": BATCH, "eval_every": 10**9, "metrics": (), "deterministic": False}
    began = time.perf_counter()
    first = fl.simulate(method, problem, held, rounds=1, **settings)
    startup = time.perf_counter() - began
    result = fl.simulate(method, problem, held, rounds=rounds + 1, resume=first, **settings)
    seconds = result.final["seconds"] - first.final["seconds"]
    return {
        "clients": clients,
        "rate": clients * rounds / seconds,
        "lanes": result.about["lanes"] or clients,
        "startup": startup,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=24)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2, help="that a way is timed over")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    parser.add_argument("--here", choices=WAYS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps(measure(chosen.here, chosen.clients, chosen.rounds)))
        return
    total = float(
        subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
            check=True, capture_output=True, text=True,
        ).stdout.split()[0]
    ) * 2**20 / 1e9  # fmt: skip
    for way in chosen.ways:
        gigabytes = total * 0.9 if way == "rows on the card" else chosen.gigabytes
        if way == "rows on the host":
            gigabytes = min(gigabytes, 1.5 * IMAGES * 32 * 32 * 3 * 4 / 1e9)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", "--here", way,
             "--clients", str(chosen.clients), "--rounds", str(chosen.rounds)],
            env={**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{gigabytes / total:.4f}"},
            capture_output=True, text=True,
        )  # fmt: skip
        line: dict[str, Any] = {"way": way, "gigabytes": round(gigabytes, 1)}
        if done.returncode == 0:
            line |= json.loads(done.stdout.strip().splitlines()[-1])
        else:
            line["failed"] = done.stderr.strip().splitlines()[-1][:300]
        line["said"] = [said for said in done.stderr.splitlines() if "device's" in said][:1]
        print(json.dumps(line), flush=True)
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
