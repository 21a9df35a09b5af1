"""`make bench`: every contestant on every workload, interleaved, median of five.

Each contestant runs in a process of its own and, where it needs packages that fedloom does not, in
an environment of its own, which is made on the first use under `.venv-bench`. A process is a line
of `docs/verification/bench.jsonl`, and from these lines come the tables of docs/performance.md. A
workload that is measured again loses its earlier lines; those of the others stay.

    python -m benchmarks.run [--workloads W1 W3] [--contestants NAME ...] [--repeats 5]
    python -m benchmarks.run --before DIR    # beside a checkout of an earlier commit
    python -m benchmarks.run --tables        # of the lines that there are
"""

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.workloads import WORKLOADS
from fedloom.files import write_text

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv-bench"
RESULTS = ROOT / "docs" / "verification" / "bench.jsonl"

BEFORE = "fedloom before"
# name: (module, packages of its own environment, extra arguments)
CONTESTANTS = {
    "limit": ("limit", (), ()),
    "fedloom": ("fedloom_simulate", (), ()),
    "fedloom, two cores": ("fedloom_simulate", (), ("--cores", "2")),
    "fedloom, one core": ("fedloom_simulate", (), ("--cores", "1")),
    BEFORE: ("fedloom_simulate", (), ()),
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
# Those that are of some workloads only.
ONLY = {
    "C, one core": ("W1", "W3"),
    "NumPy, batched": ("W1", "W3"),
    "PyTorch loop, channels last": ("W2",),
}
LIMIT = 900  # seconds that one process may take


def here() -> dict[str, str]:
    """When, and on what."""
    about = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", about.read_text()) if about.exists() else []
    kind = names[0] if names else platform.machine()
    return {"date": f"{datetime.date.today()}", "machine": f"{kind}, {os.cpu_count()} cores"}


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


def measure(name: str, workload: str, root: Path) -> dict[str, float] | str:
    """One process, of the sources in a folder; a text says why there is no figure."""
    module, packages, extra = CONTESTANTS[name]
    command = [interpreter(module, packages), "-m", f"benchmarks.contestants.{module}", workload]
    if name in FEWER_ROUNDS[workload]:
        command += ["--rounds", str(FEWER_ROUNDS[workload][name])]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    try:
        done = subprocess.run(
            [*command, *extra], cwd=root, env=environment, capture_output=True, text=True,
            timeout=LIMIT, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no result within {LIMIT} s"
    except subprocess.CalledProcessError as error:
        return (error.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def read() -> list[dict[str, Any]]:
    """The lines of the last measurements."""
    there = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in there]


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


def _in_short(number: float) -> str:
    """Three digits that count."""
    return f"{float(f'{number:.3g}'):g}"


def table(workload: str, lines_of_runs: Iterable[dict[str, Any]]) -> str:
    """The results of a workload in Markdown, fastest first."""
    runs: dict[str, list[Any]] = {}
    for line in lines_of_runs:
        if line["workload"] == workload:
            runs.setdefault(line["contestant"], []).append(line["why"] or line)
    results = {
        name: next((run for run in entries if isinstance(run, str)), None) or summary(entries)
        for name, entries in runs.items()
    }
    lines = [
        "| contestant | rounds/s | from - to | CPU ms a round | start-up s | peak MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    known = {name: entry for name, entry in results.items() if isinstance(entry, dict)}
    for name, r in sorted(known.items(), key=lambda item: -item[1]["rounds_per_second"]):
        rate, slowest, fastest, cpu, startup, peak = map(_in_short, r.values())
        lines.append(f"| {name} | {rate} | {slowest} - {fastest} | {cpu} | {startup} | {peak} |")
    lines += [f"\n{name}: {why}" for name, why in results.items() if isinstance(why, str)]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--tables", action="store_true", help="of the lines that there are")
    chosen = parser.parse_args()
    lines = [one for one in read() if chosen.tables or one["workload"] not in chosen.workloads]
    for workload in chosen.workloads:
        names = [
            name
            for name in chosen.contestants
            if workload in ONLY.get(name, WORKLOADS) and (name != BEFORE or chosen.before)
        ]
        for repeat in range(0 if chosen.tables else chosen.repeats):
            for name in names:
                print(f"{workload}, {repeat + 1} of {chosen.repeats}: {name}", file=sys.stderr)
                found = measure(name, workload, chosen.before if name == BEFORE else ROOT)
                facts = {"workload": workload, "contestant": name, "why": None, **here()}
                lines.append(facts | ({"why": found} if isinstance(found, str) else found))
                write_text(RESULTS, "".join(json.dumps(line) + "\n" for line in lines), shared=True)
        print(f"### {workload}\n\n{table(workload, lines)}\n")


if __name__ == "__main__":
    main()
