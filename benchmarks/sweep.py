"""A sweep of W1: 5 step sizes x 4 seeds x 100 rounds, by every way there is.

    python -m benchmarks.sweep

Prints one JSON line a way: the seconds of the whole sweep in a process that has compiled before
(the warm cache), and the ratio to one run after the other.
"""

import json
import time
from collections.abc import Callable

import fedloom as fl
from benchmarks.workloads import WORKLOADS, arrays
from fedloom.simulator.many_runs import PlannedRun, simulate_many
from fedloom.simulator.vmapped_runs import simulate_vmapped

RATES, SEEDS, ROUNDS = (0.01, 0.03, 0.1, 0.3, 1.0), range(4), 100


def main() -> None:
    w = WORKLOADS["W1"]
    clients = fl.data.from_arrays(list(zip(*arrays(w), strict=True)))
    problem = fl.problems.Logistic()
    runs = [
        (fl.algorithms.FedAvg(lr=lr, local_steps=w.steps), seed) for lr in RATES for seed in SEEDS
    ]
    options = {"rounds": ROUNDS, "batch_size": w.batch, "eval_every": ROUNDS, "metrics": ("loss",)}

    def one_after_the_other() -> None:
        for algorithm, seed in runs:
            fl.simulate(algorithm, problem, clients, seed=seed, **options)

    ways: dict[str, Callable[[], object]] = {
        "one after the other": one_after_the_other,
        "fl.sweep's choice": lambda: simulate_many(
            [PlannedRun(algorithm, problem, seed) for algorithm, seed in runs], clients, **options
        ),
        "one vmapped program": lambda: simulate_vmapped(runs, problem, clients, **options),
    }
    base = 0.0
    for name, way in ways.items():
        way()  # compiles
        began = time.perf_counter()
        way()
        seconds = time.perf_counter() - began
        base = base or seconds
        print(json.dumps({"way": name, "seconds": round(seconds, 2), "ratio": seconds / base}))


if __name__ == "__main__":
    main()
