"""What a contestant reports: start-up and steady state apart, wall and CPU time, peak memory."""

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.workloads import ACCELERATED, WORKLOADS

_BEGAN = time.perf_counter()


def tell(line: str, out: Path | None) -> None:
    """Print a line of results, and keep it in a file if there is one."""
    print(line, flush=True)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")


def contest(prepare: Callable[..., Callable[[int], None]], *flags: str) -> None:
    """Measure one contestant in this process.

    `prepare(workload, cores)` loads, builds and compiles, and returns a function that runs a number
    of rounds to their end; None stands for all cores. Each of its `flags` is an argument of the
    command and of it.
    """
    every = WORKLOADS | ACCELERATED
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=every)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cores", type=int, help="by default all there are")
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    chosen = parser.parse_args()
    workload = every[chosen.workload]
    rounds = chosen.rounds or workload.rounds
    options = {flag: True for flag in flags if getattr(chosen, flag)}
    run = prepare(workload, chosen.cores, **options)
    run(1)
    startup = time.perf_counter() - _BEGAN
    wall, cpu = time.perf_counter(), time.process_time()
    run(rounds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {"startup": startup, "rounds": rounds, "wall": wall, "cpu": cpu, "peak_mb": peak}
        )
    )
