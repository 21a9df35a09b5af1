"""What it costs to compile without XLA's fusion for YNNPACK, which adds up wrongly.

    python -m benchmarks.fusion [--repeats 5] [--out FILE]

jaxlib 0.10 fuses a product and the sum after it for YNNPACK, and is then wrong beyond 32,768 mapped
rows, so that importing fedloom turns this off (`fedloom/versions.py`). Each workload runs in fresh
processes, with the fusion and without by turns. Prints one JSON line for each: rounds a second, and
the ratio of the medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.workloads import WORKLOADS

CONTESTANT = "benchmarks.contestants.fedloom_simulate"
# XLA reads its flags when JAX computes for the first time: before fedloom is imported, or after.
FIRST = "import jax, runpy; jax.numpy.zeros(1); "
WAYS = {
    "with": ["-W", "ignore", "-c", f"{FIRST}runpy.run_module({CONTESTANT!r}, run_name='__main__')"],
    "without": ["-m", CONTESTANT],
}


def rate(workload: str, way: str) -> float:
    """Rounds a second of one process."""
    command = [sys.executable, *WAYS[way], workload]
    done = subprocess.run(
        command, env=os.environ | {"FEDLOOM_CACHE": "off"}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    told = json.loads(done.stdout.splitlines()[-1])
    return told["rounds"] / told["wall"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    chosen = parser.parse_args()
    lines = []
    for workload in WORKLOADS:
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(chosen.repeats):
            for way in WAYS:
                rates[way].append(rate(workload, way))
        medians = {way: statistics.median(found) for way, found in rates.items()}
        ratio = medians["without"] / medians["with"]
        lines.append(json.dumps({"workload": workload, **rates, "ratio": ratio}))
        print(lines[-1], flush=True)
    if chosen.out:
        chosen.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
