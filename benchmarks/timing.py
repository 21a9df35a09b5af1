"""What a contestant reports: start-up and steady state apart, wall and CPU time, peak memory."""

import argparse
import json
import resource
import time
from collections.abc import Callable

from benchmarks.workloads import WORKLOADS, Workload

_BEGAN = time.perf_counter()


def contest(prepare: Callable[[Workload, int | None], Callable[[int], None]]) -> None:
    """Measure one contestant in this process.

    `prepare(workload, cores)` loads, builds and compiles, and returns a function that runs a number
    of rounds to their end; None stands for all cores.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cores", type=int, help="by default all there are")
    chosen = parser.parse_args()
    workload = WORKLOADS[chosen.workload]
    rounds = chosen.rounds or workload.rounds
    run = prepare(workload, chosen.cores)
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
