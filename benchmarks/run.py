"""`make bench`: every contestant on every workload, interleaved, median of five.

Each contestant runs in a process of its own and, where it needs packages that fedloom does not, in
an environment of its own, which is made on the first use under `.venv-bench`. Results go to
`benchmarks/results.json`; the table is printed in the form of docs/performance.md.

    python -m benchmarks.run [--workloads W1 W3] [--contestants NAME ...] [--repeats 5]
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.workloads import WORKLOADS
from fedloom.files import write_text

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv-bench"
RESULTS = Path(__file__).with_name("results.json")

# name: (module, packages of its own environment, extra arguments)
CONTESTANTS = {
    "limit": ("limit", (), ()),
    "fedloom": ("fedloom_simulate", (), ()),
    "fedloom, one core": ("fedloom_simulate", (), ("--cores", "1")),
    "C, one core": ("c_program", (), ()),
    "JAX by hand": ("jax_by_hand", (), ()),
    "NumPy, batched": ("numpy_batched", (), ()),
    "PyTorch loop": ("torch_loop", ("torch==2.13.0", "numpy"), ()),
    "PyTorch loop, channels last": ("torch_channels_last", ("torch==2.13.0", "numpy"), ()),
    "FedJAX": ("fedjax_simulation", ("fedjax==0.0.17", "jax==0.10.2"), ()),
    "pfl": ("pfl_simulation", ("torch==2.13.0", "pfl[pytorch]==0.6.0"), ()),
    "Flower": ("flower_simulation", ("torch==2.13.0", "flwr[simulation]==1.41.0"), ()),
}
# Those that need a second or more for a round are measured over fewer of them.
FEWER_ROUNDS = {
    "W1": {"PyTorch loop": 6, "FedJAX": 30, "pfl": 10, "Flower": 10},
    "W2": {"PyTorch loop": 2, "PyTorch loop, channels last": 2, "FedJAX": 2, "pfl": 2, "Flower": 2},
    "W3": {"PyTorch loop": 20, "FedJAX": 30, "pfl": 20, "Flower": 3},
}
LIMIT = 900  # seconds that one process may take


def interpreter(module: str, packages: tuple[str, ...]) -> str:
    """The Python of a contestant's environment, made if it is not there."""
    if not packages:
        return sys.executable
    folder = ENVIRONMENTS / module
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "installed").touch()
    return str(python)


def measure(name: str, workload: str) -> dict[str, float] | str:
    """One process; a text says why there is no figure."""
    module, packages, extra = CONTESTANTS[name]
    command = [interpreter(module, packages), "-m", f"benchmarks.contestants.{module}", workload]
    if name in FEWER_ROUNDS[workload]:
        command += ["--rounds", str(FEWER_ROUNDS[workload][name])]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            [*command, *extra], cwd=ROOT, env=environment, capture_output=True, text=True,
            timeout=LIMIT, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no result within {LIMIT} s"
    except subprocess.CalledProcessError as error:
        return (error.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def summary(runs: list[dict[str, float]]) -> dict[str, float]:
    """Medians over the runs, and the spread of the rates."""
    rates = [run["rounds"] / run["wall"] for run in runs]
    return {
        "rounds_per_second": statistics.median(rates),
        "slowest": min(rates),
        "fastest": max(rates),
        "cpu_ms_per_round": statistics.median(1000 * r["cpu"] / r["rounds"] for r in runs),
        "startup_s": statistics.median(run["startup"] for run in runs),
        "peak_mb": statistics.median(run["peak_mb"] for run in runs),
    }


def table(workload: str, results: dict[str, dict[str, float] | str]) -> str:
    """The results of a workload in Markdown, fastest first."""
    lines = [
        f"### {workload}\n",
        "| contestant | rounds/s | from - to | CPU ms a round | start-up s | peak MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    known = {name: entry for name, entry in results.items() if isinstance(entry, dict)}
    for name, r in sorted(known.items(), key=lambda item: -item[1]["rounds_per_second"]):
        lines.append(
            f"| {name} | {r['rounds_per_second']:.3g} | {r['slowest']:.3g} - {r['fastest']:.3g} | "
            f"{r['cpu_ms_per_round']:.3g} | {r['startup_s']:.2g} | {r['peak_mb']:.0f} |"
        )
    lines += [f"\n{name}: {why}" for name, why in results.items() if isinstance(why, str)]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    kept: dict = {"date": f"{datetime.date.today()}", "machine": machine}
    for workload in chosen.workloads:
        runs: dict[str, list] = {name: [] for name in chosen.contestants}
        for repeat in range(chosen.repeats):
            for name in chosen.contestants:
                print(f"{workload}, {repeat + 1} of {chosen.repeats}: {name}", file=sys.stderr)
                runs[name].append(measure(name, workload))
        results = {
            name: next((r for r in entries if isinstance(r, str)), None) or summary(entries)
            for name, entries in runs.items()
        }
        kept[workload] = results
        print(table(workload, results), end="\n\n")
        write_text(RESULTS, json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
