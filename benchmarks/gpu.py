"""Every contestant on an accelerator, in one run: client-rounds a second.

    python -m benchmarks.gpu [--workloads W2 W2x100 CIFAR-10 ResNet-20] [--contestants NAME ...]
        [--repeats 1] [--out FILE]

Each contestant is a process of its own, one after the other, in the interpreter that runs this, so
that JAX, PyTorch, FedJAX (with Haiku) and pfl must be there; pure Python packages may be unpacked
into a folder on PYTHONPATH. Prints one JSON line for each: the rate, the seconds to the end of the
first round (compilation included) and, for W2, the useful arithmetic. A contestant that fails says
how.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import tell
from benchmarks.workloads import ACCELERATED, WORKLOADS, Workload

# Multiplications and additions of one row, forward and backward (three times the forward pass).
FLOPS_PER_ROW = 3 * 2 * (28 * 28 * 9 * 16 + 14 * 14 * 144 * 32 + 1568 * 128 + 128 * 10)
LIMIT = 90  # seconds that one process may take
# name: (module, extra arguments, client-rounds that are measured)
CONTESTANTS = {
    "fedloom": ("fedloom_simulate", (), 4000),
    "fedloom, free": ("fedloom_simulate", ("--free",), 4000),
    "fedloom, bfloat16": ("fedloom_simulate", ("--free", "--bfloat16"), 4000),
    "FedJAX": ("fedjax_simulation", (), 300),
    "pfl": ("pfl_simulation", (), 200),
    "PyTorch loop": ("torch_on_gpu", (), 100),
}
TASKS = {"W2": WORKLOADS["W2"]} | ACCELERATED


def measure(name: str, w: Workload) -> dict[str, Any]:
    """Run a contestant in a process."""
    module, extra, wanted = CONTESTANTS[name]
    rounds = max(2, wanted // w.cohort // (4 if w.name == "ResNet-20" else 1))
    command = [sys.executable, "-m", f"benchmarks.contestants.{module}", w.name]
    command += ["--rounds", str(rounds), *extra]
    line: dict[str, Any] = {"workload": w.name, "contestant": name, "cohort": w.cohort}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        seen = json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        said = done.stderr if not isinstance(error, subprocess.TimeoutExpired) else str(error)
        return line | {"failed": said[-300:]}
    rate = w.cohort * rounds / seen["wall"]
    line |= {"rounds": rounds, "rate": rate, "rounds_per_s": rounds / seen["wall"]}
    line["startup"] = seen["startup"]
    if w.name.startswith("W2"):
        line["gflops"] = rate * w.steps * w.batch * FLOPS_PER_ROW / 1e9
    return line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--contestants", nargs="+", default=list(CONTESTANTS), choices=CONTESTANTS)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    chosen = parser.parse_args()
    for workload in chosen.workloads:
        for _ in range(chosen.repeats):
            for name in chosen.contestants:
                tell(json.dumps(measure(name, TASKS[workload])), chosen.out)


if __name__ == "__main__":
    main()
